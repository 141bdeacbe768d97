"""Objects by name: similar names where one does not exist, commands to controllers, and waiting for their effect."""

from collections.abc import Callable

from volcano.base.clock import Clock
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import COMMAND, Kind
from volcano.kube.api.manifest import Key, Manifest, owner_reference
from volcano.kube.client.protocol import Client, Options, Query
from volcano.services.errors import NotFoundError, near

WAIT_POLLS, WAIT_POLL = 50, 0.1


async def find(client: Client, kind: Kind, key: Key) -> Manifest:
    """Gets the object; raises NotFoundError with a similar name if it does not exist."""
    try:
        return await client.get(kind, key)
    except NotFound as error:
        raise await _missing(client, kind, key, error) from None


async def delete_object(client: Client, kind: Kind, key: Key) -> None:
    """Deletes the object and its dependents in the background; raises NotFoundError with a similar name."""
    try:
        await client.delete(kind, key, options=Options(propagation="Background"))
    except NotFound as error:
        raise await _missing(client, kind, key, error) from None


async def _missing(client: Client, kind: Kind, key: Key, error: ApiError) -> Exception:
    """Error for a missing object, with a similar name if there is one."""
    if not error.name:  # the server does not know the kind
        return error
    try:
        listing = await client.list(kind, Query(namespace=key.namespace))
    except ApiError:  # without permission to list there is no suggestion
        return NotFoundError(error.message)
    names = [item["metadata"]["name"] for item in listing.items]
    where = f" in namespace {key.namespace!r}" if key.namespace else ""
    return NotFoundError(f"{kind.singular} {key.name!r} not found{where}{near(key.name, names)}")


async def until(
    client: Client, clock: Clock, kind: Kind, key: Key, reached: Callable[[Manifest], bool]
) -> None:
    """Waits a few seconds for a controller to act, so that the next command of a script sees the result."""
    for _ in range(WAIT_POLLS):
        try:
            if reached(await client.get(kind, key)):
                return
        except NotFound:
            return
        await clock.sleep(WAIT_POLL)


async def send_command(client: Client, owner: Manifest, action: str, namespace: str) -> None:
    """Creates a Command for an action on an object, owned by that object."""
    reference = owner_reference(owner)
    command = {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
    }
    await client.create(COMMAND, command)

"""Objects named on a command line: name resolution, similar names, files, commands."""

import argparse
from collections.abc import Callable

from volcano.cli.errors import CommandError, Missing, UsageError, near
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import COMMAND, Kind
from volcano.kube.api.manifest import Key, Manifest, owner_reference
from volcano.kube.client.protocol import Options, Query

WAIT_POLLS, WAIT_POLL = 50, 0.1


def target(arguments: argparse.Namespace, session: Session, message: str) -> Key:
    """Resolves namespace and name. `-n X` is the namespace, or the name if nothing else gives one.

    Raises UsageError with `message` if there is no name.
    """
    named = arguments.position or arguments.name
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = named or arguments.short_n
    if not name:
        raise UsageError(message)
    namespace = arguments.namespace or (arguments.short_n if named else "") or session.namespace
    return Key(namespace, name)


def named(arguments: argparse.Namespace, message: str) -> Key:
    """Resolves the name of a cluster-scoped object."""
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = arguments.position or arguments.name
    if not name:
        raise UsageError(message)
    return Key("", name)


def namespace(arguments: argparse.Namespace, session: Session) -> str:
    """Namespace of a list; empty for all."""
    if getattr(arguments, "all_namespaces", False):
        return ""
    return arguments.namespace or arguments.short_n or session.namespace


async def find(session: Session, kind: Kind, key: Key) -> Manifest:
    """Gets the object; raises Missing with a similar name if it does not exist."""
    try:
        return await session.client.get(kind, key)
    except NotFound as error:
        raise await missing(session, kind, key, error) from None


async def delete(session: Session, kind: Kind, key: Key) -> None:
    """Deletes the object and its dependents in the background; raises Missing with a similar name."""
    try:
        await session.client.delete(kind, key, options=Options(propagation="Background"))
    except NotFound as error:
        raise await missing(session, kind, key, error) from None


async def missing(session: Session, kind: Kind, key: Key, error: ApiError) -> Exception:
    """Error for a missing object, with a similar name if there is one."""
    if not error.name:  # the server does not know the kind
        return error
    try:
        listing = await session.client.list(kind, Query(namespace=key.namespace))
    except ApiError:  # without permission to list there is no suggestion
        return Missing(error.message)
    names = [item["metadata"]["name"] for item in listing.items]
    where = f" in namespace {key.namespace!r}" if key.namespace else ""
    return Missing(f"{kind.singular} {key.name!r} not found{where}{near(key.name, names)}")


def read_objects(path: str, kind: Kind) -> list[Manifest]:
    """Reads the objects of a file, which must all be of one kind."""
    from volcano.embedded.files import FileError, read_files

    try:
        documents = read_files([path])
    except FileError as error:
        raise CommandError(str(error)) from None
    for document in documents:
        said = document.manifest["apiVersion"], document.manifest["kind"]
        if said != (kind.api_version, kind.kind):
            raise CommandError(
                f"{document.source}: is a {said[1]} of {said[0]}; a {kind.kind} of {kind.api_version} was expected"
            )
    if not documents:
        raise CommandError(f"{path}: holds no {kind.kind}")
    return [document.manifest for document in documents]


async def until(session: Session, kind: Kind, key: Key, reached: Callable[[Manifest], bool]) -> None:
    """Waits a few seconds for a controller to act, so that the next command of a script sees the result."""
    for _ in range(WAIT_POLLS):
        try:
            if reached(await session.client.get(kind, key)):
                return
        except NotFound:
            return
        await session.clock.sleep(WAIT_POLL)


async def send_command(session: Session, owner: Manifest, action: str, namespace: str) -> None:
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
    await session.client.create(COMMAND, command)

"""Open, close and change queues."""

from collections.abc import Mapping
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client
from volcano.services.errors import Rejected
from volcano.services.objects import find, send_command, until

COMMAND_NAMESPACE = "default"  # of the Commands for queues
OPEN, CLOSE = "open", "close"
ACTIONS = {OPEN: "OpenQueue", CLOSE: "CloseQueue"}
REACHED = {OPEN: ("Open",), CLOSE: ("Closed", "Closing")}


async def operate_queue(client: Client, clock: Clock, name: str, action: str) -> None:
    """Opens or closes a queue; Rejected if it is open or closed already."""
    key, reached = Key("", name), REACHED[action]
    queue = await find(client, QUEUE, key)
    if state_of(queue) in reached:
        raise Rejected(f"queue {name} is {state_of(queue).lower()} already")
    await send_command(client, queue, ACTIONS[action], COMMAND_NAMESPACE)
    await until(client, clock, QUEUE, key, lambda queue: state_of(queue) in reached)


async def update_queue(client: Client, name: str, spec: Mapping[str, Any]) -> None:
    """Changes fields of a queue's spec; resource maps are replaced, not merged."""
    key = Key("", name)
    old = (await find(client, QUEUE, key)).get("spec") or {}
    patch = {field: _replacing(old.get(field), value) for field, value in spec.items()}
    await client.patch(QUEUE, key, {"spec": patch})


def state_of(queue: Manifest) -> str:
    return str((queue.get("status") or {}).get("state") or "")


def _replacing(old: Any, new: Any) -> Any:
    """Merge patch that results in exactly the new value."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    removed: dict[str, Any] = {name: None for name in old if name not in new}
    return removed | {name: _replacing(old.get(name), value) for name, value in new.items()}

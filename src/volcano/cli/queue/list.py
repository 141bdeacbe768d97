"""`vcctl queue list` and `get`: queues with PodGroup counts."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence

from volcano.cli import flags, objects
from volcano.cli.listing import Listing, Objects, show, show_one
from volcano.cli.printing.tables import Column, fixed, longest
from volcano.cli.quantities import resources_text
from volcano.cli.session import Session
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.services.objects import find

PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
SPARE = {"Unknown": 5, "Completed": 4}
EIGHT = fixed(8)
MANDATORY = "name is mandatory to get the particular queue details"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_list(parser, namespaced=False)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists queues."""
    return await show(Listing(QUEUE, columns, also=(POD_GROUP,)), arguments, session)


def get_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    flags.add_output(parser)


async def get(arguments: argparse.Namespace, session: Session) -> int:
    """Shows one queue."""
    queue = await find(session.client, QUEUE, objects.named(arguments, MANDATORY))
    return await show_one(Listing(QUEUE, columns, also=(POD_GROUP,)), queue, arguments, session)


def columns(objects: Objects) -> Sequence[Column]:
    """Columns of queues, with PodGroups counted by queue and phase."""
    tally = counts(objects[POD_GROUP])
    return (
        Column("Name", _name, fixed(25)),
        Column("Weight", lambda queue: str(_spec(queue).get("weight") or 0), EIGHT, spare=3),
        Column("State", state, EIGHT, coloured=True),
        Column("Parent", lambda queue: _spec(queue).get("parent") or "", EIGHT),
        *(Column(phase, _counting(tally, phase), EIGHT, spare=SPARE.get(phase, 0)) for phase in PHASES),
        Column(
            "Priority", lambda queue: str(_spec(queue).get("priority") or 0), longest(3), wide=True, spare=9
        ),
        Column("Guarantee", lambda queue: resources_text(guarantee(queue)), longest(3), wide=True, spare=8),
        Column(
            "Deserved",
            lambda queue: resources_text(_spec(queue).get("deserved")),
            longest(3),
            wide=True,
            spare=6,
        ),
        Column(
            "Capability",
            lambda queue: resources_text(_spec(queue).get("capability")),
            longest(3),
            wide=True,
            spare=7,
        ),
        Column(
            "Allocated", lambda queue: resources_text(_status(queue).get("allocated")), longest(3), wide=True
        ),
    )


def counts(pod_groups: Sequence[Manifest]) -> Counter[tuple[str, str]]:
    """Number of PodGroups per queue and phase."""
    return Counter(
        ((group.get("spec") or {}).get("queue", ""), _status(group).get("phase", "")) for group in pod_groups
    )


def _counting(tally: Counter[tuple[str, str]], phase: str) -> Callable[[Manifest], str]:
    return lambda queue: str(tally[_name(queue), phase])


def state(queue: Manifest) -> str:
    """Open, Closed, Closing or Unknown."""
    return str(_status(queue).get("state") or "")


def guarantee(queue: Manifest) -> dict[str, str] | None:
    """Guaranteed resources of the queue."""
    found: dict[str, str] | None = (_spec(queue).get("guarantee") or {}).get("resource")
    return found


def _name(queue: Manifest) -> str:
    return str(queue["metadata"]["name"])


def _spec(queue: Manifest) -> Manifest:
    return queue.get("spec") or {}


def _status(manifest: Manifest) -> Manifest:
    return manifest.get("status") or {}

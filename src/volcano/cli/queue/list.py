"""`vcctl queue list` and `get`: queues with PodGroup counts."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence

from volcano.cli import flags, objects
from volcano.cli.listing import Listing, Objects, show, show_one
from volcano.cli.printing.tables import Column, fixed, longest
from volcano.cli.quantities import resources_text
from volcano.cli.session import Session
from volcano.kube.api.fields import at, name_of, number
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.services.objects import find

PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
SPARE = {"Unknown": 5, "Completed": 4}
EIGHT = fixed(8)
# Columns of `-o wide` with resource lists: header, path, and order in which narrow terminals leave them out.
RESOURCES = (
    ("Guarantee", ("spec", "guarantee", "resource"), 8),
    ("Deserved", ("spec", "deserved"), 6),
    ("Capability", ("spec", "capability"), 7),
    ("Allocated", ("status", "allocated"), 0),
)
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
        Column("Name", name_of, fixed(25)),
        Column("Weight", lambda queue: str(number(queue, "spec", "weight")), EIGHT, spare=3),
        Column("State", state, EIGHT, coloured=True),
        Column("Parent", lambda queue: at(queue, "spec", "parent", default=""), EIGHT),
        *(Column(phase, _counting(tally, phase), EIGHT, spare=SPARE.get(phase, 0)) for phase in PHASES),
        Column(
            "Priority", lambda queue: str(number(queue, "spec", "priority")), longest(3), wide=True, spare=9
        ),
        *(
            Column(header, _amounts(*path), longest(3), wide=True, spare=spare)
            for header, path, spare in RESOURCES
        ),
    )


def _amounts(*path: str) -> Callable[[Manifest], str]:
    return lambda queue: resources_text(at(queue, *path))


def counts(pod_groups: Sequence[Manifest]) -> Counter[tuple[str, str]]:
    """Number of PodGroups per queue and phase."""
    return Counter(
        (at(group, "spec", "queue", default=""), at(group, "status", "phase", default=""))
        for group in pod_groups
    )


def _counting(tally: Counter[tuple[str, str]], phase: str) -> Callable[[Manifest], str]:
    return lambda queue: str(tally[name_of(queue), phase])


def state(queue: Manifest) -> str:
    """Open, Closed, Closing or Unknown."""
    return str(at(queue, "status", "state", default=""))

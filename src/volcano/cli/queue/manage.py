"""`vcctl queue create`, `operate`, `update` and `delete`."""

import argparse
from typing import Any

from volcano.cli import flags, objects
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.quantities import parse_resources
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.fields import at
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.services.objects import delete_object, find
from volcano.services.queues import ACTIONS, operate_queue, update_queue


def create_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    parser.add_argument("-w", "--weight", type=int, default=1, help="weight among its siblings (default 1)")
    parser.add_argument("-S", "--state", default="Open", help="state (default Open; set by the server)")
    _add_spec(parser)


def _add_spec(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a queue's spec beyond its weight."""
    add = parser.add_argument
    add("--parent", default=None, help="parent queue")
    add(
        "--capability",
        default=None,
        metavar="RESOURCES",
        help="upper limit, such as cpu=8,memory=16Gi",
    )
    add("--deserved", default=None, metavar="RESOURCES", help="fair share, for the plugin capacity")
    add("--guarantee", default=None, metavar="RESOURCES", help="resources reserved for the queue")
    add("--priority", type=int, default=None, help="queues of higher priority go first")
    add(
        "--reclaimable",
        choices=("true", "false"),
        default=None,
        help="whether other queues may reclaim from it",
    )


def _spec(arguments: argparse.Namespace) -> dict[str, Any]:
    """Spec from the flags; only flags that were given."""
    spec: dict[str, Any] = {}
    for field in ("parent", "priority"):
        if getattr(arguments, field) is not None:
            spec[field] = getattr(arguments, field)
    for field in ("capability", "deserved"):
        if getattr(arguments, field) is not None:
            spec[field] = parse_resources(getattr(arguments, field), f"--{field}")
    if arguments.guarantee is not None:
        spec["guarantee"] = {"resource": parse_resources(arguments.guarantee, "--guarantee")}
    if arguments.reclaimable is not None:
        spec["reclaimable"] = arguments.reclaimable == "true"
    return spec


async def create(arguments: argparse.Namespace, session: Session) -> int:
    """Creates a queue."""
    name = arguments.position or arguments.name or "test"
    queue: Manifest = {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": name},
        "spec": {"weight": arguments.weight, **_spec(arguments)},
        "status": {"state": arguments.state},
    }
    await session.client.create(QUEUE, queue)
    session.write(f"create queue {name} successfully")
    return 0


def delete_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask, even if the queue has jobs")


async def delete(arguments: argparse.Namespace, session: Session) -> int:
    """Deletes a queue; asks if it has unfinished jobs."""
    key = objects.named(arguments, "queue name must be specified")
    await find(session.client, QUEUE, key)
    if not arguments.yes and (jobs := await _active_jobs(session, key.name)):
        what = f"{jobs} unfinished job{'s' if jobs != 1 else ''}"
        if not session.confirm(f"queue {key.name} has {what}; delete it?"):
            raise CommandError(f"queue {key.name} has {what}; add --yes to delete it anyway")
    await delete_object(session.client, QUEUE, key)
    session.write(f"delete queue {key.name} successfully")
    return 0


async def _active_jobs(session: Session, queue: str) -> int:
    """PodGroups of a queue that have not ended; 0 if the user may not list them."""
    try:
        groups = (await session.client.list(POD_GROUP)).items
    except Forbidden:
        return 0
    return sum(
        1
        for group in groups
        if at(group, "spec", "queue") == queue and at(group, "status", "phase") != "Completed"
    )


def operate_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    parser.add_argument("-w", "--weight", type=int, default=0, help="new weight, for update")
    parser.add_argument("-a", "--action", default="", help="open, close or update")


async def operate(arguments: argparse.Namespace, session: Session) -> int:
    """Opens or closes a queue, or changes its weight."""
    key = objects.named(arguments, "queue name must be specified")
    if not arguments.action:
        raise UsageError("action can not be null")
    if arguments.action in ACTIONS:
        await operate_queue(session.client, session.clock, key.name, arguments.action)
        session.write(f"{arguments.action} queue {key.name} successfully")
    elif arguments.action != "update":
        raise UsageError(f"action {arguments.action} invalid, valid actions are open, close and update")
    elif arguments.weight == 0:
        raise UsageError("weight must be specified")
    else:
        await update_queue(session.client, key.name, {"weight": arguments.weight})
        session.write(f"update queue {key.name} successfully")
    return 0


def update_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    parser.add_argument("-w", "--weight", type=int, default=None, help="weight among its siblings")
    _add_spec(parser)


async def update(arguments: argparse.Namespace, session: Session) -> int:
    """Changes the fields of a queue's spec given by flags."""
    key = objects.named(arguments, "queue name must be specified")
    spec = _spec(arguments)
    if arguments.weight is not None:
        spec["weight"] = arguments.weight
    if not spec:
        raise UsageError(
            "nothing to change; use --weight, --parent, --capability, --deserved, --guarantee, --priority "
            "or --reclaimable"
        )
    await update_queue(session.client, key.name, spec)
    session.write(f"update queue {key.name} successfully")
    return 0

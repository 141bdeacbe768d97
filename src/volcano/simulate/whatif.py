"""What-if options: more nodes, other queues, more arrivals."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from volcano.kube.api import quantity
from volcano.simulate.loaders import pool_nodes
from volcano.simulate.workload import SimNode, SimQueue, TraceError, Workload

LISTS = ("capability", "deserved", "guarantee")


def add_nodes(nodes: Sequence[SimNode], text: str) -> tuple[SimNode, ...]:
    """`10:a100`: ten more nodes like those with this GPU model, name or label; or `10:cpu=32,memory=128Gi`."""
    number, separator, kind = text.partition(":")
    if not separator or not number.isdigit():
        raise TraceError(
            "--add-nodes", f"{text!r} should be COUNT:KIND, such as 10:a100 or 10:cpu=32,memory=128Gi"
        )
    if "=" in kind:
        added = pool_nodes(text, prefix=f"added{len(nodes)}")
        return (*nodes, *added)
    wanted = kind.lower()
    like = next((node for node in nodes if wanted in _names(node)), None) or next(
        (node for node in nodes if any(name.startswith(wanted) for name in _names(node))), None
    )
    if like is None:
        known = sorted({node.gpu_model for node in nodes if node.gpu_model})
        choice = f"; GPU models are {', '.join(known)}" if known else ""
        raise TraceError(
            "--add-nodes", f"no node is or has {kind!r}{choice}; a shape such as cpu=32 works too"
        )
    more = (replace(like, name=f"added-{kind.lower()}-{len(nodes) + i}") for i in range(int(number)))
    return (*nodes, *more)


def _names(node: SimNode) -> set[str]:
    return {node.name.lower(), node.gpu_model.lower(), *(value.lower() for value in node.labels.values())}


def set_value(queues: Sequence[SimQueue], text: str) -> tuple[SimQueue, ...]:
    """`queue.research.weight=4` or `queue.research.capability.cpu=100`."""
    path, separator, value = text.partition("=")
    kind, _, rest = path.partition(".")
    name, _, field = rest.partition(".")
    if kind != "queue" or not separator or not field:
        raise TraceError(
            "--set", f"{text!r} should be queue.NAME.FIELD=VALUE, such as queue.research.weight=4"
        )
    if name not in {queue.name for queue in queues}:
        known = ", ".join(sorted(queue.name for queue in queues))
        raise TraceError("--set", f"there is no queue {name!r}; there are {known}")
    return tuple(_changed(queue, field, value, text) if queue.name == name else queue for queue in queues)


def _changed(queue: SimQueue, field: str, value: str, text: str) -> SimQueue:
    field, _, resource = field.partition(".")
    known: dict[str, Any] = {each.name: each for each in fields(SimQueue) if each.name != "name"}
    if field not in known:
        raise TraceError("--set", f"a queue has no {field!r}; choose from {', '.join(known)}")
    if field in LISTS:
        if not resource:
            raise TraceError(
                "--set", f"{text!r} needs a resource, such as queue.{queue.name}.{field}.cpu=100"
            )
        try:
            amount = quantity.canonical(value)
        except ValueError as error:
            raise TraceError("--set", str(error)) from None
        changes: dict[str, Any] = {field: {**getattr(queue, field), resource: amount}}
        return replace(queue, **changes)
    if field == "reclaimable":
        if value not in ("true", "false"):
            raise TraceError("--set", f"{text!r}: reclaimable is true or false")
        return replace(queue, reclaimable=value == "true")
    if field == "parent":
        return replace(queue, parent=value)
    if not value.isdigit():
        raise TraceError("--set", f"{text!r}: {field} must be a whole number")
    numbers: dict[str, Any] = {field: int(value)}
    return replace(queue, **numbers)


def scale_arrivals(workload: Workload, factor: float) -> Workload:
    """Jobs arrive `factor` times as often: the gaps between them shrink."""
    if factor <= 0:
        raise TraceError("--scale-arrivals", f"the factor must be above 0 (got {factor:g})")
    jobs = [replace(job, arrival=job.arrival / factor) for job in workload.jobs]
    return replace(workload, jobs=jobs)

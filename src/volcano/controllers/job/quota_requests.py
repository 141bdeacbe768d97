"""What a job's pods ask for, in the words of a quota, and the least a gang needs to start."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from volcano.controllers.job.spec import Job, Task
from volcano.kube.extended import is_extended
from volcano.kube.quantity import Quantity, read

Amounts = dict[str, Quantity]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def min_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """What `minAvailable` pods use, in the words of a resource quota; pods of higher priority are taken first."""
    total: Amounts = {}
    for task, count in _gang(job, priorities):
        if count:
            for name, quantity in usage(task.template.get("spec") or {}).items():
                _add(total, name, Quantity(quantity.amount * count, quantity.family))
    return {name: str(total[name]) for name in sorted(total)}


def usage(spec: Mapping[str, Any]) -> Amounts:
    """What one pod counts as against a quota, its requests defaulting to its limits."""
    one = read("1")
    used: Amounts = {"count/pods": one, "pods": one}
    requests, limits = _effective(spec, "requests"), _effective(spec, "limits")
    for name, quantity in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-") or is_extended(name):
            used[name] = used[f"requests.{name}"] = quantity
    for name, quantity in limits.items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = quantity
    return used


def _gang(job: Job, priorities: Mapping[str, int]) -> Iterable[tuple[Task, int]]:
    """How many pods of each task make up the least gang."""
    tasks = sorted(job.tasks, key=lambda task: -priorities.get(_priority_class(task), 0))
    taken = dict.fromkeys((task.name for task in tasks), 0)
    left = job.min_available
    minima = sum(task.minimum for task in tasks)
    rounds: list[Sequence[int]] = [[task.replicas for task in tasks]]
    if job.min_available >= minima:
        rounds = [[task.minimum for task in tasks], [task.replicas - task.minimum for task in tasks]]
    for wanted in rounds:
        for task, most in zip(tasks, wanted, strict=True):
            count = max(min(most, left), 0)
            taken[task.name] += count
            left -= count
    return [(task, taken[task.name]) for task in tasks]


def _priority_class(task: Task) -> str:
    name: str = (task.template.get("spec") or {}).get("priorityClassName") or ""
    return name


def _effective(spec: Mapping[str, Any], field: str) -> Amounts:
    """What a pod asks for as a whole: its containers together, or one init container, whichever is more."""
    main: Amounts = {}
    for container in spec.get("containers") or ():
        _add_all(main, _amounts(container, field))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            _add_all(main, own)
            _add_all(sidecars, own)
            own = {}
        _add_all(own, sidecars)
        _raise_to(peak, own)
    _raise_to(main, peak)
    main |= _amounts(spec, field)  # amounts for the pod as a whole override what its containers add up to
    for name, text in (spec.get("overhead") or {}).items():
        if field == "requests" or name in main:
            _add(main, name, read(text))
    return main


def _amounts(holder: Mapping[str, Any], field: str) -> Amounts:
    resources = holder.get("resources") or {}
    raw = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if field == "limits":
        raw = resources.get("limits") or {}
    return {name: read(amount) for name, amount in raw.items()}


def _add(total: Amounts, name: str, quantity: Quantity) -> None:
    known = total.get(name)
    total[name] = quantity if known is None else Quantity(known.amount + quantity.amount, known.family)


def _add_all(total: Amounts, more: Amounts) -> None:
    for name, quantity in more.items():
        _add(total, name, quantity)


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, quantity in least.items():
        if quantity.amount > total.get(name, Quantity(Decimal(-1), quantity.family)).amount:
            total[name] = quantity

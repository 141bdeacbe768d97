"""Reducers: how the results of one hook of several plugins become one. Each hook declares its own in `hooks.py`."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Abstain, NodeCapacity, RejectedNodes, Vote
from volcano.scheduler.engine.diagnosis import Rejection

NOTHING: Mapping[str, str] = {}
Hook = Callable[..., Any]  # a bound method of a plugin
NamedHook = tuple[str, Hook]  # with the plugin's name


class Hooks:
    """One hook of the plugins that override it: by tier, and all of them in the order in which they are called."""

    __slots__ = ("calls", "named", "tiers")

    def __init__(self, tiers: Sequence[Sequence[NamedHook]], *, first: Iterable[str] = ()) -> None:
        """Plugins named in `first` are called before all others."""
        self.tiers = tiers
        self.named = sorted(
            (named for tier in tiers for named in tier), key=lambda named: named[0] not in first
        )
        self.calls = [call for _, call in self.named]

    def __bool__(self) -> bool:
        return bool(self.calls)


Reducer = Callable[..., Any]  # of the hooks and the subject they are called with
Declared = TypeVar("Declared", bound=Callable[..., Any])


def combine(reducer: Reducer) -> Callable[[Declared], Declared]:
    """Declares a method as a hook, and how the results of several plugins combine."""

    def declare(hook: Declared) -> Declared:
        hook.reducer = reducer  # type: ignore[attr-defined]
        return hook

    return declare


def separately(hooks: Hooks, *subject: Any) -> dict[str, Any]:
    """Each plugin by itself."""
    return {name: hook(*subject) for name, hook in hooks.named}


def notify(hooks: Hooks, *subject: Any) -> None:
    """All are called."""
    for hook in hooks.calls:
        hook(*subject)


def order(hooks: Hooks, *subject: Any) -> tuple[Any, ...]:
    """Keys in plugin order: the first that differs decides."""
    return tuple([hook(*subject) for hook in hooks.calls])


def all_of(hooks: Hooks, *subject: Any) -> bool:
    """All must agree; true without any."""
    return all(hook(*subject) for hook in hooks.calls)


def any_of(hooks: Hooks, *subject: Any) -> bool:
    """One suffices; false without any."""
    return any(hook(*subject) for hook in hooks.calls)


def largest(hooks: Hooks, subject: Any) -> int:
    """The largest number; 0 without any."""
    calls = hooks.calls
    if len(calls) == 1:
        return int(calls[0](subject))
    return max([hook(subject) for hook in calls], default=0)


def limit(hooks: Hooks, queue: Any, task: Task, count: int) -> int:
    """Each may lower the count that the one before returned."""
    for hook in hooks.calls:
        if count <= 0:
            return 0
        count = hook(queue, task, count)
    return count


def first_rejection(hooks: Hooks, *subject: Any) -> Rejection | None:
    """The first rejection, with its plugin's name."""
    for name, hook in hooks.named:
        rejection: Rejection | None = hook(*subject)
        if rejection is not None:
            return rejection.by(name)
    return None


def first_result(hooks: Hooks, *subject: Any) -> Any:
    """The first result that is not None."""
    return next((result for hook in hooks.calls if (result := hook(*subject)) is not None), None)


def chain(hooks: Hooks, *subject: Any) -> list[Any]:
    """All results, one after the other."""
    return [item for hook in hooks.calls for item in hook(*subject)]


def chain_or_none(hooks: Hooks, *subject: Any) -> list[Any] | None:
    """All results, one after the other; None when all return None."""
    found: list[Any] | None = None
    for hook in hooks.calls:
        items = hook(*subject)
        if items is not None:
            found = [*items] if found is None else [*found, *items]
    return found


def merge(hooks: Hooks, *subject: Any) -> Mapping[str, str]:
    """All entries; of equal names, the last counts."""
    calls = hooks.calls
    return {name: text for hook in calls for name, text in hook(*subject).items()} if calls else NOTHING


def least_capacity(hooks: Hooks, *subject: Any) -> NodeCapacity | None:
    """The smallest number for each row; None when all return None."""
    limits = [limit for hook in hooks.calls if (limit := hook(*subject)) is not None]
    if len(limits) < 2:
        return limits[0] if limits else None

    def explain() -> Iterable[RejectedNodes]:
        return (rejected for limit in limits for rejected in limit.explain())

    counts = np.minimum.reduce([limit.counts for limit in limits])
    return NodeCapacity(counts, explain, all(limit.repeats for limit in limits))


def total(hooks: Hooks, task: Any, nodes: Sized) -> Vector:
    """The sum; zeros without any."""
    score: Vector | None = total_or_none(hooks, task, nodes)
    return np.zeros(len(nodes)) if score is None else score


def total_or_none(hooks: Hooks, *subject: Any) -> Vector | None:
    """The sum; None when all return None."""
    score: Vector | None = None
    for hook in hooks.calls:
        points: Vector | None = hook(*subject)
        if points is not None:
            score = points if score is None else score + points
    return score


def tiered_vote(hooks: Hooks, *subject: Any) -> Vote | Rejection:
    """One rejection decides, then the first tier with a permit; permitted when all abstain."""
    for tier in hooks.tiers:
        permitted = False
        for name, hook in tier:
            vote: Vote | Rejection = hook(*subject)
            if isinstance(vote, Rejection):
                return vote.by(name)
            if vote is Vote.REJECT:
                return Rejection(f"rejected by {name}", plugin=name)
            permitted = permitted or vote is Vote.PERMIT
        if permitted:
            break
    return Vote.PERMIT


def tiered_minimum(hooks: Hooks, *subject: Any) -> int:
    """The smallest number of the first tier with any; 0 without."""
    for tier in hooks.tiers:
        count: int | None = None
        for _, hook in tier:
            number = int(hook(*subject))
            if number <= 0:
                return 0
            count = number if count is None else min(count, number)
        if count is not None:
            return count
    return 0


def tiered_intersection(hooks: Hooks, context: Any, candidates: Sequence[Task]) -> list[Task]:
    """The victims on which the plugins of a tier agree, of the first tier where there are any."""
    for tier in hooks.tiers:
        voted, left = False, candidates
        for _, hook in tier:
            victims: Sequence[Task] | Abstain = hook(context, candidates)
            if isinstance(victims, Abstain):
                continue
            voted = True
            if len(victims) < len(candidates):  # otherwise it permits all of them
                permitted = {task.uid for task in victims}
                left = [task for task in left if task.uid in permitted]
        if voted and left:
            return list(left)
    return []


def tiered_union(hooks: Hooks, candidates: Sequence[Task]) -> list[Task]:
    """All victims of the first tier that proposes any."""
    for tier in hooks.tiers:
        proposed = {task.uid for _, hook in tier for task in hook(candidates)}
        if proposed:
            return [task for task in candidates if task.uid in proposed]
    return []


def filtered(hooks: Hooks, context: Any, candidates: Sequence[Task]) -> Sequence[Task]:
    """Each removes candidates that it protects."""
    for hook in hooks.calls:
        if not candidates:
            return candidates
        candidates = hook(context, candidates)
    return candidates

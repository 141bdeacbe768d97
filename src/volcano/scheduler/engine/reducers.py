"""Reducers: how the results of one hook of several plugins become one. Every hook uses exactly one of these."""

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.plugin import Abstain, RejectedNodes, Rejection, Vote

Hook = Callable[..., Any]  # a bound method of a plugin
NamedHook = tuple[str, Hook]  # with the plugin's name
Tiers = Sequence[Sequence[NamedHook]]


def order(hooks: Sequence[Hook], *subject: Any) -> tuple[Any, ...]:
    """Returns the keys in plugin order: the first that differs decides."""
    return tuple([hook(*subject) for hook in hooks])


def all_of(hooks: Sequence[Hook], *subject: Any) -> bool:
    """All must agree; true without hooks."""
    return all(hook(*subject) for hook in hooks)


def any_of(hooks: Sequence[Hook], *subject: Any) -> bool:
    """One suffices; false without hooks."""
    return any(hook(*subject) for hook in hooks)


def largest(hooks: Sequence[Hook], subject: Any) -> int:
    """Returns the largest number; 0 without hooks."""
    if len(hooks) == 1:
        return int(hooks[0](subject))
    return max([hook(subject) for hook in hooks], default=0)


def limit(hooks: Sequence[Hook], queue: Any, task: Task, count: int) -> int:
    """Each hook may lower the count that the one before returned."""
    for hook in hooks:
        if count <= 0:
            return 0
        count = hook(queue, task, count)
    return count


def first_rejection(hooks: Sequence[NamedHook], *subject: Any) -> Rejection | None:
    """Returns the first rejection with its plugin's name; None without any."""
    for name, hook in hooks:
        rejection: Rejection | None = hook(*subject)
        if rejection is not None:
            return rejection.by(name)
    return None


def rejected_nodes(hooks: Sequence[NamedHook], *subject: Any) -> Iterator[tuple[str, RejectedNodes]]:
    """All rejected nodes with the plugin's name, in plugin order."""
    for name, hook in hooks:
        for rejected in hook(*subject) or ():
            yield name, rejected


def total(hooks: Sequence[Hook], task: Any, nodes: Sized) -> Vector:
    """Returns the sum of the scores, in plugin order; zeros without hooks."""
    score: Vector | None = None
    for hook in hooks:
        points: Vector = hook(task, nodes)
        score = points if score is None else score + points
    return np.zeros(len(nodes)) if score is None else score


def tiered_vote(tiers: Tiers, *subject: Any) -> Rejection | None:
    """One rejection decides, then the first tier with a permit; None, a permit, when all abstain."""
    for tier in tiers:
        permitted = False
        for name, hook in tier:
            vote: Vote | Rejection = hook(*subject)
            if isinstance(vote, Rejection):
                return vote.by(name)
            if vote is Vote.REJECT:
                return Rejection(f"rejected by {name}", plugin=name)
            permitted = permitted or vote is Vote.PERMIT
        if permitted:
            return None
    return None


def tiered_minimum(tiers: Tiers, *subject: Any) -> int:
    """Returns the smallest number of the first tier with hooks; 0 if one of them returns 0, or without hooks."""
    for tier in tiers:
        count: int | None = None
        for _, hook in tier:
            number = int(hook(*subject))
            if number <= 0:
                return 0
            count = number if count is None else min(count, number)
        if count is not None:
            return count
    return 0


def tiered_intersection(tiers: Tiers, context: Any, candidates: Sequence[Task]) -> list[Task]:
    """Returns the intersection of the victims of a tier's plugins, for the first tier where it is not empty."""
    for tier in tiers:
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


def tiered_union(tiers: Tiers, candidates: Sequence[Task]) -> list[Task]:
    """Returns the union of the victims proposed by the first tier that proposes any."""
    for tier in tiers:
        proposed = {task.uid for _, hook in tier for task in hook(candidates)}
        if proposed:
            return [task for task in candidates if task.uid in proposed]
    return []


def filtered(hooks: Sequence[Hook], context: Any, candidates: Sequence[Task]) -> Sequence[Task]:
    """Each hook removes candidates that it protects."""
    for hook in hooks:
        if not candidates:
            return candidates
        candidates = hook(context, candidates)
    return candidates


def first_result(hooks: Sequence[Hook], *subject: Any) -> Any:
    """Returns the first result that is not None."""
    for hook in hooks:
        result = hook(*subject)
        if result is not None:
            return result
    return None


def notify(hooks: Sequence[Hook], *subject: Any) -> None:
    """Calls all hooks."""
    for hook in hooks:
        hook(*subject)

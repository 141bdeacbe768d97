"""The ways in which answers of several plugins become one. Every question uses exactly one of these."""

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, TypeVar

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.plugin import Abstain, RejectedNodes, Rejection, Vote

Answer = TypeVar("Answer")
Ask = Callable[..., Any]
Named = tuple[str, Ask]  # the plugin's name and its method
Tiers = Sequence[Sequence[Named]]


def order(asked: Sequence[Ask], *subject: Any) -> tuple[Any, ...]:
    """Keys in plugin order: the first that differs decides."""
    return tuple([ask(*subject) for ask in asked])


def everyone(asked: Sequence[Ask], *subject: Any) -> bool:
    """All agree; yes when nobody answers."""
    return all(ask(*subject) for ask in asked)


def anyone(asked: Sequence[Ask], *subject: Any) -> bool:
    """One suffices; no when nobody answers."""
    return any(ask(*subject) for ask in asked)


def most(asked: Sequence[Ask], subject: Any) -> int:
    """The largest number; 0 when nobody answers."""
    if len(asked) == 1:
        return int(asked[0](subject))
    return max([ask(subject) for ask in asked], default=0)


def least(asked: Sequence[Ask], queue: Any, task: Task, count: int) -> int:
    """Each may lower the number that the one before left."""
    for ask in asked:
        if count <= 0:
            return 0
        count = ask(queue, task, count)
    return count


def first_refusal(asked: Sequence[Named], *subject: Any) -> Rejection | None:
    """The first refusal, with the name of who refused; None when nobody does."""
    for name, ask in asked:
        refusal: Rejection | None = ask(*subject)
        if refusal is not None:
            return refusal.by(name)
    return None


def rejections(asked: Sequence[Named], *subject: Any) -> Iterator[tuple[str, RejectedNodes]]:
    """Everything that rules nodes out, with who said so, in plugin order."""
    for name, ask in asked:
        for reject in ask(*subject) or ():
            yield name, reject


def total(asked: Sequence[Ask], task: Any, nodes: Sized) -> Vector:
    """The sum of the scores, in plugin order; zeros when nobody answers."""
    score: Vector | None = None
    for ask in asked:
        answer: Vector = ask(task, nodes)
        score = answer if score is None else score + answer
    return np.zeros(len(nodes)) if score is None else score


def tiered_vote(tiers: Tiers, *subject: Any) -> Rejection | None:
    """One veto refuses; the first tier with a permit decides; None, a yes, when nobody minds."""
    for tier in tiers:
        permitted = False
        for name, ask in tier:
            answer: Vote | Rejection = ask(*subject)
            if isinstance(answer, Rejection):
                return answer.by(name)
            if answer is Vote.REJECT:
                return Rejection(f"refused by {name}", plugin=name)
            permitted = permitted or answer is Vote.PERMIT
        if permitted:
            return None
    return None


def tiered_everyone(tiers: Tiers, *subject: Any) -> int:
    """All of the first tier that has an opinion must agree, and the smallest of their numbers counts; 0, a no, else."""
    for tier in tiers:
        count: int | None = None
        for _, ask in tier:
            answer = int(ask(*subject))
            if answer <= 0:
                return 0
            count = answer if count is None else min(count, answer)
        if count is not None:
            return count
    return 0


def tiered_intersection(tiers: Tiers, hunt: Any, candidates: Sequence[Task]) -> list[Task]:
    """The first tier whose members agree on somebody decides; nobody when none does."""
    for tier in tiers:
        voted, left = False, candidates
        for _, ask in tier:
            answer: Sequence[Task] | Abstain = ask(hunt, candidates)
            if isinstance(answer, Abstain):
                continue
            voted = True
            if len(answer) < len(candidates):  # else they may all go, for this one
                named = {task.uid for task in answer}
                left = [task for task in left if task.uid in named]
        if voted and left:
            return list(left)
    return []


def tiered_union(tiers: Tiers, candidates: Sequence[Task]) -> list[Task]:
    """Everybody whom somebody in the first tier that names anyone names."""
    for tier in tiers:
        named = {task.uid for _, ask in tier for task in ask(candidates)}
        if named:
            return [task for task in candidates if task.uid in named]
    return []


def sieve(asked: Sequence[Ask], hunt: Any, candidates: Sequence[Task]) -> Sequence[Task]:
    """Each takes out whom it protects."""
    for ask in asked:
        if not candidates:
            return candidates
        candidates = ask(hunt, candidates)
    return candidates


def first_answer(asked: Sequence[Ask], default: Answer, *subject: Any) -> Answer:
    """The first answer that is not None, else the default."""
    for ask in asked:
        answer: Answer | None = ask(*subject)
        if answer is not None:
            return answer
    return default


def tell_all(asked: Sequence[Ask], *subject: Any) -> None:
    """A notification."""
    for ask in asked:
        ask(*subject)

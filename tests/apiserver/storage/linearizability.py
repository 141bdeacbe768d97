"""Checks that a recorded history of operations on one object is linearizable, with resourceVersions.

A history is linearizable if every operation can be given a moment between its invocation and its response so that the
results are those of a single store that does one operation at a time (Herlihy and Wing). The search is that of Wing and
Gong with memoization (Lowe): an operation may be next if no other one ended before it began.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import NamedTuple


class Kind(Enum):
    CREATE = auto()
    UPDATE = auto()  # with a resourceVersion
    PATCH = auto()  # without one
    DELETE = auto()
    READ = auto()


class Outcome(Enum):
    DONE = auto()
    MISSING = auto()  # 404, or absent from a list
    EXISTS = auto()  # 409 of a create
    CONFLICT = auto()  # 409 of an update
    UNKNOWN = auto()  # no response: it may take effect at any later moment, or never


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a client. Values are unique, so that a read names the write it saw."""

    kind: Kind
    began: float
    ended: float  # infinity when there was no response
    outcome: Outcome
    value: str = ""  # written or read
    version: int = 0  # the resourceVersion in the response
    expected: int = 0  # the resourceVersion that an update names


class State(NamedTuple):
    """The object: absent without a value. `version` is 0 while no response has named it; `least` is a lower bound."""

    value: str = ""
    version: int = 0
    least: int = 0


ABSENT = State()


def is_linearizable(history: Sequence[Operation], initial: State = ABSENT) -> bool:
    """Whether some order of the operations explains all results."""
    operations = sorted(history, key=lambda operation: operation.began)
    everything = sum(
        1 << number for number, each in enumerate(operations) if each.outcome is not Outcome.UNKNOWN
    )
    whole = (1 << len(operations)) - 1
    visited: set[tuple[int, State]] = set()
    pending = [(0, initial)]
    while pending:
        done, state = pending.pop()
        if done & everything == everything:
            return True
        if (done, state) in visited:
            continue
        visited.add((done, state))
        first_end = inf
        remaining = whole & ~done
        while remaining:
            number = (remaining & -remaining).bit_length() - 1
            remaining &= remaining - 1
            operation = operations[number]
            if operation.began > first_end:
                break  # an operation that has not been placed ended before this one began
            first_end = min(first_end, operation.ended)
            pending += [(done | 1 << number, after) for after in apply(operation, state)]
    return False


def apply(operation: Operation, state: State) -> list[State]:
    """The states that the operation may lead to with the result it had; none when the result is impossible."""
    match operation.kind, operation.outcome:
        case Kind.READ, Outcome.DONE:
            return _read(operation, state)
        case _, Outcome.MISSING:
            return [state] if not state.value else []
        case Kind.CREATE, Outcome.EXISTS:
            return [state] if state.value else []
        case Kind.UPDATE, Outcome.CONFLICT:
            stale = state.value and (state.version != operation.expected or not state.version)
            return [state] if stale else []
        case Kind.CREATE, Outcome.DONE | Outcome.UNKNOWN:
            return _write(operation, state) if not state.value else []
        case Kind.UPDATE, Outcome.DONE | Outcome.UNKNOWN:
            return _write(operation, state) if _expects(operation, state) else []
        case Kind.PATCH, Outcome.DONE | Outcome.UNKNOWN:
            return _write(operation, state) if state.value else []
        case Kind.DELETE, Outcome.DONE | Outcome.UNKNOWN:
            return [State(least=max(state.least, state.version, operation.version))] if state.value else []
    raise ValueError(f"{operation.kind} cannot have the outcome {operation.outcome}")


def _read(operation: Operation, state: State) -> list[State]:
    if state.value != operation.value:
        return []
    if state.version:
        return [state] if state.version == operation.version else []
    # The write had no response: this is the first time its version is seen.
    return (
        [State(state.value, operation.version, operation.version)] if operation.version > state.least else []
    )


def _expects(operation: Operation, state: State) -> bool:
    """Whether the object has the version that an update names."""
    if not state.value:
        return False
    return state.version == operation.expected if state.version else operation.expected > state.least


def _write(operation: Operation, state: State) -> list[State]:
    least = max(state.least, state.version, operation.expected)
    if operation.outcome is Outcome.UNKNOWN:
        return [State(operation.value, 0, least)]
    if operation.version <= least:
        return []  # versions grow
    return [State(operation.value, operation.version, operation.version)]

"""Indexes of pods as text: `1,3-5`."""

import re
from collections.abc import Collection, Iterable

MAX_INDEXES = 1_000_000  # they are held in memory
_PART = re.compile(r"(?P<first>[0-9]{1,10})(?:-(?P<last>[0-9]{1,10}))?")


def parse_indexes(text: str | None, completions: int | None = None) -> set[int]:
    """`1,3-5` as {1, 3, 4, 5}; indexes beyond the completions are dropped, as after the job was scaled down.

    Clients can write any status: what is no index is ignored.
    """
    limit = MAX_INDEXES if completions is None else min(completions, MAX_INDEXES)
    indexes: set[int] = set()
    for part in (text or "").split(","):
        if (run := _PART.fullmatch(part)) is not None:
            first, last = run["first"], run["last"] or run["first"]
            indexes.update(range(int(first), min(int(last) + 1, limit)))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """{1, 3, 4, 5} as `1,3-5`; two consecutive ones are listed, as Kubernetes does."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_format_run(first, last) for first, last in runs)


def _format_run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def first_missing(taken: Collection[int], completions: int, count: int) -> list[int]:
    """The lowest indexes below `completions` that are not taken, at most `count`."""
    missing: list[int] = []
    for index in range(completions):
        if len(missing) >= count:
            break
        if index not in taken:
            missing.append(index)
    return missing

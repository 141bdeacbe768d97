"""Completion indexes of Indexed jobs as text: `1,3-5`."""

from collections.abc import Collection, Iterable


def parse_indexes(text: str | None, completions: int | None = None) -> set[int]:
    """`1,3-5` as {1, 3, 4, 5}; indexes beyond the completions are dropped, as after the job was scaled down."""
    indexes: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        end = int(last or first)
        indexes.update(range(int(first), end + 1 if completions is None else min(end + 1, completions)))
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
    found: list[int] = []
    for index in range(completions):
        if len(found) >= count:
            break
        if index not in taken:
            found.append(index)
    return found

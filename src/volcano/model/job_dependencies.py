"""Dependencies between jobs, as in batch systems: conditions on the end of other jobs."""

from collections.abc import Mapping
from typing import NamedTuple

from volcano.kube.api.names import JOB_DEPENDENCY

# Phases of the other job that fulfil a condition, and phases after which it cannot be fulfilled any more.
FULFILLED = {
    "afterok": ("Completed",),
    "afternotok": ("Failed", "Terminated"),
    "afterany": ("Completed", "Failed", "Terminated", "Aborted"),
}
IMPOSSIBLE = {"afterok": ("Failed", "Terminated"), "afternotok": ("Completed",), "afterany": ()}


class Dependency(NamedTuple):
    condition: str
    name: str


def parse_dependencies(text: str) -> list[Dependency]:
    """`afterok:a:b,afterany:c` as (afterok, a), (afterok, b), (afterany, c). Raises ValueError."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        condition, *names = part.split(":")
        if condition not in FULFILLED:
            raise ValueError(f"{condition!r} is none of {', '.join(FULFILLED)}")
        if not names or not all(names):
            raise ValueError(f"{part!r} must name a job, such as {condition}:train")
        found += [Dependency(condition, name) for name in names]
    return found


def dependencies_of(annotations: Mapping[str, str]) -> list[Dependency]:
    """Dependencies of a job; none if the annotation is invalid, which admission rejects."""
    try:
        return parse_dependencies(annotations.get(JOB_DEPENDENCY, ""))
    except ValueError:
        return []

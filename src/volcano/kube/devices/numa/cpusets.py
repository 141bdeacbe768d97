"""CPU sets as bit masks (bit n is CPU n), and their text form `0-3,8`."""

import re
from collections.abc import Iterable, Iterator

MOST_CPUS = 8192  # CPU numbers are below this; bounds the memory that hostile input costs
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def parse(text: str) -> int:
    """The set written as a list of CPUs and ranges. Raises ValueError."""
    found = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else 0
        if match is None or last < first or last >= MOST_CPUS:
            raise ValueError(
                f"{text!r} is not a list of CPUs; write CPU numbers below {MOST_CPUS} and ranges, such as 0-3,8"
            )
        found |= (1 << last + 1) - (1 << first)
    return found


def text_of(cpus: int) -> str:
    """The shortest text of a set; empty for the empty set."""
    parts = []
    numbers = list(members(cpus))
    while numbers:
        length = 1
        while length < len(numbers) and numbers[length] == numbers[0] + length:
            length += 1
        parts.append(str(numbers[0]) if length == 1 else f"{numbers[0]}-{numbers[length - 1]}")
        numbers = numbers[length:]
    return ",".join(parts)


def members(cpus: int) -> Iterator[int]:
    """The CPUs of a set, ascending."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


def of(numbers: Iterable[int]) -> int:
    """The set of some CPUs."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found

"""Validation of counts and durations: whole numbers within their range, durations in Go's format."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.kube.api import duration
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import QUEUE_RESERVATION_TIMEOUT, WALLTIME
from volcano.model.annotations import walltime
from volcano.webhooks.review import Violation, annotations_in

TIME_ANNOTATIONS = (WALLTIME, QUEUE_RESERVATION_TIMEOUT)
LARGEST = 2**31 - 1  # the fields are 32-bit integers


def check_count(
    owner: Mapping[str, Any], name: str, path: str, too_small: str, least: int = 0
) -> Iterable[Violation]:
    """Validates an optional count; `too_small` is the message for values below `least`."""
    value = owner.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        yield Violation(path, f"'{name}' must be a whole number such as 3, not {value!r}")
    elif value < least:
        yield Violation(path, f"{too_small} (it is {value})")
    elif value > LARGEST:
        yield Violation(path, f"'{name}' {value} is too large; {LARGEST} is the most")


def check_job_numbers(spec: Mapping[str, Any]) -> Iterable[Violation]:
    """Validates the counts and the estimate of a job."""
    for name, least, too_small in (
        ("minAvailable", 0, "job 'minAvailable' must be >= 0"),
        ("maxRetry", 0, "'maxRetry' cannot be less than zero"),
        ("ttlSecondsAfterFinished", 0, "'ttlSecondsAfterFinished' cannot be less than zero"),
        ("minSuccess", 1, "'minSuccess' must be >= 1"),
    ):
        yield from check_count(spec, name, f"spec.{name}", too_small, least)
    yield from check_duration(spec.get("runningEstimate"), "spec.runningEstimate")


def check_duration(value: Any, path: str, *, zero: bool = True) -> Iterable[Violation]:
    """Validates an optional duration: in Go's format and not negative; positive unless `zero`."""
    if value is None or value == "":
        return
    try:
        nanoseconds = duration.parse_nanoseconds(value if isinstance(value, str) else str(value))
    except ValueError as error:
        yield Violation(path, f'time: invalid duration "{value}": {error}')
        return
    if nanoseconds < 0 or (nanoseconds == 0 and not zero):
        yield Violation(path, f'time: invalid duration "{value}": it must be {">= 0" if zero else "> 0"}')


def check_time_annotations(manifest: Manifest) -> Iterable[Violation]:
    """Validates the annotations of a Job or PodGroup with its walltime, and the time for which it reserves room."""
    annotations = annotations_in(manifest)
    path = f"metadata.annotations[{QUEUE_RESERVATION_TIMEOUT}]"
    yield from check_duration(annotations.get(QUEUE_RESERVATION_TIMEOUT), path, zero=False)
    text = annotations.get(WALLTIME)
    if text is None:
        return
    try:
        walltime.parse(str(text))
    except ValueError as error:
        yield Violation(f"metadata.annotations[{WALLTIME}]", str(error))


def whole_number(value: Any) -> int:
    """A count for further rules; 0 for what `check_count` rejects."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

"""One-line reasons for the state of a run: why it waits, or why it failed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from volcano.kube.api.manifest import Manifest, condition_of

# Reasons of waiting containers that are not failures.
ORDINARY_WAITS = ("ContainerCreating", "PodInitializing")
LONGEST = 300


def exit_code(pods: Iterable[Manifest]) -> int:
    """The exit code of the container that failed first; 0 when none has."""
    return int(min(_failures(pods), key=_when, default=("", {"exitCode": 0}))[1]["exitCode"])


def failure_reason(owner: Manifest, pods: Sequence[Manifest]) -> str:
    """The reason of the first failed container, of a failed pod, or of the owner's own condition."""
    failures = list(_failures(pods))
    if failures:
        name, end = min(failures, key=_when)
        return _line(f"{name}: exit code {end['exitCode']}", end.get("reason"), end.get("message"))
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") == "Failed" and status.get("reason"):
            return _line(pod["metadata"]["name"], status["reason"], status.get("message"))
    failed = condition_of(owner, "Failed") or (owner.get("status") or {}).get("state") or {}
    return _line("", failed.get("reason"), failed.get("message"))


def waiting_reason(pods: Iterable[Manifest], groups: Iterable[Manifest]) -> str:
    """Why pods do not run: an unschedulable PodGroup, an unscheduled pod, or a container that cannot start."""
    for group in groups:
        blocked = condition_of(group, "Unschedulable")
        if blocked is not None and blocked.get("status") == "True":
            return str(blocked.get("message", ""))
    for pod in pods:
        name = pod["metadata"]["name"]
        for status in _statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") and waiting["reason"] not in ORDINARY_WAITS:
                return _line(name, waiting["reason"], waiting.get("message"))
        placed = condition_of(pod, "PodScheduled")
        if placed is not None and placed.get("status") == "False" and placed.get("message"):
            return _line(name, None, placed["message"])
    return ""


def _failures(pods: Iterable[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every container termination with a non-zero exit code, with the name of its pod."""
    for pod in pods:
        for status in _statuses(pod):
            for state in ("state", "lastState"):
                end = (status.get(state) or {}).get("terminated")
                if end and end.get("exitCode"):
                    yield pod["metadata"]["name"], end


def _when(failure: tuple[str, dict[str, Any]]) -> tuple[str, int]:
    return failure[1].get("finishedAt") or "", int(failure[1]["exitCode"])


def _statuses(pod: Manifest) -> Iterator[dict[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _line(subject: str, reason: str | None, message: str | None) -> str:
    line = ": ".join(text for text in (subject, reason if reason != "Error" else "", message) if text)
    return " ".join(line.split())[:LONGEST]

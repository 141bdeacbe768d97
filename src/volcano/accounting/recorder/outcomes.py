"""How and when a pod run ended, according to the pod's last status."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from volcano.accounting.api import Outcome
from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import Manifest, condition_of

LISTS: Final = ("initContainerStatuses", "containerStatuses")
# Reasons of the condition DisruptionTarget, and of the status itself.
NODE_LOST: Final = frozenset(("DeletionByPodGC", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"))
EVICTED: Final = frozenset(
    (
        "PreemptionByScheduler",
        "EvictionByEvictionAPI",
        "DeletionByTaintManager",
        "TerminationByKubelet",
        "Evicted",
        "Preempting",
    )
)
# Taints of nodes that do not answer; other taints evict on purpose.
UNREACHABLE: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")

# Pods of a gang are created, started and ended within few seconds.
moment_of = lru_cache(maxsize=512)(parse_timestamp)


class Ending(NamedTuple):
    """How a run ended."""

    outcome: Outcome
    reason: str = ""


def ending_of(pod: Manifest) -> Ending:
    """How a pod ended that is finished or deleted. A pod that succeeded while it was evicted has completed."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return Ending(Outcome.COMPLETED)
    disruption = condition_of(pod, "DisruptionTarget") or {}
    reason = str(disruption.get("reason") or "") if disruption.get("status") == "True" else ""
    message = str(disruption.get("message") or "")
    for cause in filter(None, (reason, str(status.get("reason") or ""))):
        if cause in NODE_LOST or (
            cause == "DeletionByTaintManager" and any(t in message for t in UNREACHABLE)
        ):
            return Ending(Outcome.NODE_LOST, cause)
        if cause in EVICTED:
            return Ending(Outcome.EVICTED, cause)
    if status.get("phase") == "Failed":
        return Ending(Outcome.FAILED, str(status.get("reason") or _container_reason(status)))
    return Ending(Outcome.DELETED)


def ended_at(pod: Manifest, started: float, now: float) -> float:
    """When the last container of a pod ended; `now` where that is not known."""
    last = last_end(pod)
    return now if last is None else min(max(started, last), max(now, started))


def last_end(pod: Manifest) -> float | None:
    """When the last container of a pod ended, according to its status; None where that does not say."""
    status = pod.get("status") or {}
    last: float | None = None
    try:
        for name in LISTS:
            for entry in status.get(name) or ():
                state = entry.get("state") or {}
                if state.get("running"):
                    return None
                finished = (state.get("terminated") or {}).get("finishedAt")
                if finished:
                    ended = moment_of(finished)
                    last = ended if last is None or ended > last else last
    except ValueError:
        return None
    return last


def started_at(pod: Manifest) -> float | None:
    """When the kubelet accepted a pod; None before."""
    text = (pod.get("status") or {}).get("startTime")
    if not text or not (pod.get("spec") or {}).get("nodeName"):
        return None
    try:
        return moment_of(text)
    except ValueError:
        return None


def _container_reason(status: Mapping[str, Any]) -> str:
    """The reason of the first container that failed, with its exit code."""
    for entry in (entry for name in LISTS for entry in status.get(name) or ()):
        ended = (entry.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"{ended.get('reason') or 'Error'} (exit code {ended['exitCode']})"
    return ""

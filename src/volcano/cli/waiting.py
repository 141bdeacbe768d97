"""Reason for which a job waits, from the conditions of its PodGroup."""

from volcano.kube.manifest import Manifest, condition_of

WAITING = ("Pending", "Inqueue", "Restarting")  # phases of jobs and PodGroups


def why_waiting(group: Manifest) -> str:
    """Message of a PodGroup's Unschedulable condition; empty if it is not waiting."""
    blocked = condition_of(group, "Unschedulable")
    if blocked is None or blocked.get("status") != "True":
        return ""
    return str(blocked.get("message") or blocked.get("reason") or "")

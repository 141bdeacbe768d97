"""Reason for which a job waits, from the conditions of its PodGroup."""

from collections.abc import Iterable

from volcano.kube.api.manifest import Manifest, condition_of, controller_of

WAITING = ("Pending", "Inqueue", "Restarting")  # phases of jobs and PodGroups


def why_waiting(group: Manifest) -> str:
    """Message of a PodGroup's Unschedulable condition; empty if it is not waiting."""
    blocked = condition_of(group, "Unschedulable")
    if blocked is None or blocked.get("status") != "True":
        return ""
    return str(blocked.get("message") or blocked.get("reason") or "")


def waiting_reasons(groups: Iterable[Manifest]) -> dict[str, str]:
    """Reason of every PodGroup that waits, by the uid of its job."""
    owned = ((controller_of(group), why_waiting(group)) for group in groups)
    return {str(owner.get("uid")): reason for owner, reason in owned if owner is not None and reason}

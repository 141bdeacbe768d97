"""podFailurePolicy and successPolicy: the first rule that matches decides."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.controllers.indexes import parse_indexes
from volcano.controllers.kubernetes.job.spec import index_failures, is_failed
from volcano.kube.api.manifest import Manifest, key_of


@dataclass(frozen=True, slots=True)
class FailureMatch:
    """The action of the first rule that a failed pod matches, if any."""

    action: str = ""
    message: str = ""  # of a failed job

    @property
    def counts(self) -> bool:
        """Whether the failure counts against the backoff limits."""
        return self.action != "Ignore"


def match_failure(job: Manifest, pod: Manifest) -> FailureMatch:
    """Evaluates podFailurePolicy for a failed pod."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        cause = _matched(rule, pod)
        if cause:
            return FailureMatch(rule["action"], f"{cause} matching {rule['action']} rule at index {number}")
    return FailureMatch()


def job_failure(job: Manifest, pods: Iterable[Manifest]) -> str:
    """Why podFailurePolicy fails the job; empty when it does not."""
    if not job["spec"].get("podFailurePolicy"):
        return ""
    for pod in pods:
        if is_failed(pod, job):
            match = match_failure(job, pod)
            if match.action == "FailJob":
                return match.message
    return ""


def fails_index(job: Manifest, pod: Manifest) -> bool:
    """Whether the index of a pod is not tried again."""
    if not is_failed(pod, job):
        return False
    match = match_failure(job, pod)
    if match.action == "FailIndex":
        return True
    return match.counts and index_failures(pod) >= int(job["spec"]["backoffLimitPerIndex"])


def success_rule(job: Manifest, succeeded: Collection[int]) -> str:
    """The rule of successPolicy that the succeeded indexes meet; empty when there is none."""
    rules = (job["spec"].get("successPolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        wanted, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        among = parse_indexes(wanted, int(job["spec"]["completions"])) if wanted is not None else None
        matched = len(succeeded) if among is None else len(among.intersection(succeeded))
        needed = count if count is not None else len(among or ())
        if matched >= needed and (count is not None or among is not None):
            return f"Matched rules at index {number}"
    return ""


def _matched(rule: Mapping[str, Any], pod: Manifest) -> str:
    """How a pod matches a rule; empty when it does not."""
    status, key = pod.get("status") or {}, key_of(pod)
    codes = rule.get("onExitCodes")
    if codes is not None:
        for container in (
            *(status.get("containerStatuses") or ()),
            *(status.get("initContainerStatuses") or ()),
        ):
            code = _exit_code(container, codes)
            if code is not None:
                return f"Container {container['name']} for pod {key} failed with exit code {code}"
        return ""
    for pattern in rule.get("onPodConditions") or ():
        for condition in status.get("conditions") or ():
            if (condition.get("type"), condition.get("status")) == (
                pattern["type"],
                pattern.get("status", "True"),
            ):
                return f"Pod {key} has condition {condition['type']}"
    return ""


def _exit_code(container: Mapping[str, Any], codes: Mapping[str, Any]) -> int | None:
    """The exit code of a container if it matches."""
    code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
    name = codes.get("containerName")
    if not code or (name is not None and name != container.get("name")):
        return None
    is_listed = code in (codes.get("values") or ())
    return int(code) if is_listed == (codes["operator"] == "In") else None

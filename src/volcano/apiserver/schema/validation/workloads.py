"""Validation of workload kinds: replicas, selectors, pod templates and update strategies."""

import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.job_policies import (
    failure_policy,
    indexed_settings,
    managed_by,
    success_policy,
)
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.apiserver.schema.validation.pods import template
from volcano.apiserver.schema.validation.storage import claim_spec
from volcano.kube.api import cron, selectors
from volcano.kube.api.formats.names import dns_label, dns_subdomain, percent
from volcano.kube.api.manifest import Manifest

_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_SET_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_SET_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def count_or_percent(value: Any, path: str) -> Causes:
    """Validates a number or percentage of pods."""
    if isinstance(value, str):
        if errors := percent(value):
            yield from field.each(path, value, errors)
        elif int(value[:-1]) > 100:
            yield field.invalid(path, value, "must not be greater than 100%")
    else:
        yield from field.not_negative(path, value)


def _is_zero(value: Any) -> bool:
    return value in (None, 0, "0%")


def _selector_and_template(
    spec: Manifest, *, needed: str = "Always", selects: bool = True, noun: str = "deployment"
) -> Causes:
    """Validates a selector and the pod template whose labels it must match."""
    selector, pod = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        if selects:
            yield field.required("spec.selector")
    else:
        found = list(label_selector(selector, "spec.selector"))
        yield from found
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            yield field.invalid("spec.selector", selector, f"empty selector is invalid for {noun}")
        elif found:
            yield field.invalid("spec.selector", selector, "invalid label selector")
            return
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if selector is None or not _matches(selector, labels):
        yield field.invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
    yield from template(pod, "spec.template")
    policy = (pod.get("spec") or {}).get("restartPolicy")
    if policy != needed and policy in ("Never", "OnFailure"):
        yield field.unsupported("spec.template.spec.restartPolicy", policy, [needed])


def _matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches; a malformed one does not, and is reported elsewhere."""
    try:
        return selectors.from_object(selector).matches(labels)
    except ValueError:
        return False


def _counts(spec: Manifest, *names: str) -> Causes:
    for name in names:
        yield from field.not_negative(f"spec.{name}", spec.get(name))


def deployment(manifest: Manifest) -> Causes:
    """Validates a Deployment."""
    spec = manifest.get("spec") or {}
    yield from _counts(spec, "replicas")
    yield from _selector_and_template(spec)
    yield from _rollout(spec.get("strategy") or {})
    yield from _counts(spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and 0 <= deadline <= (spec.get("minReadySeconds") or 0):
        yield field.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rollout(strategy: Manifest) -> Causes:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            yield field.forbidden(
                "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
            )
    elif kind == "RollingUpdate":
        if rolling is None:
            yield field.required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil")
            return
        for name in ("maxUnavailable", "maxSurge"):
            yield from count_or_percent(rolling.get(name), f"spec.strategy.rollingUpdate.{name}")
        if _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
            yield field.invalid(
                "spec.strategy.rollingUpdate.maxUnavailable",
                rolling.get("maxUnavailable"),
                "may not be 0 when `maxSurge` is 0",
            )
    else:
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield field.unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))


def replica_set(manifest: Manifest) -> Causes:
    """Validates a ReplicaSet."""
    spec = manifest.get("spec") or {}
    yield from _counts(spec, "replicas", "minReadySeconds")
    yield from _selector_and_template(spec)


def selector_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates that the selector has not changed."""
    if subresource != "status":
        yield from field.immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


def daemon_set(manifest: Manifest) -> Causes:
    """Validates a DaemonSet."""
    spec = manifest.get("spec") or {}
    yield from _selector_and_template(spec, selects=False, noun="daemonset")
    yield from _counts(spec, "minReadySeconds", "revisionHistoryLimit")
    update = spec.get("updateStrategy") or {}
    if update.get("type") == "RollingUpdate":
        rolling, path = update.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate"
        for name in ("maxUnavailable", "maxSurge"):
            yield from count_or_percent(rolling.get(name), f"{path}.{name}")
        if _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
            yield field.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif update.get("type") != "OnDelete":
        shown = {"Type": update.get("type"), "RollingUpdate": update.get("rollingUpdate")}
        yield field.unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))


def stateful_set(manifest: Manifest) -> Causes:
    """Validates a StatefulSet."""
    spec = manifest.get("spec") or {}
    if name := spec.get("serviceName"):
        yield from field.each("spec.serviceName", name, dns_label(name))
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        policy = spec.get("podManagementPolicy")
        yield field.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    update = spec.get("updateStrategy") or {}
    if update.get("type") == "RollingUpdate":
        partition = (update.get("rollingUpdate") or {}).get("partition")
        yield from field.not_negative("spec.updateStrategy.rollingUpdate.partition", partition)
    elif update.get("type") != "OnDelete":
        shown = {"Type": update.get("type"), "RollingUpdate": update.get("rollingUpdate")}
        yield field.invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
        yield from field.one_of(path, retention.get(name), ("Retain", "Delete"))
    yield from _counts(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from _selector_and_template(spec, noun="statefulset")
    for where, claim in field.items(spec, "volumeClaimTemplates", "spec"):
        yield from claim_spec(claim.get("spec") or {}, f"{where}.spec")


def stateful_set_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    if subresource == "status":
        return
    after, before = (
        {k: v for k, v in each["spec"].items() if k not in _STATEFUL_SET_MUTABLE} for each in (new, old)
    )
    if after != before:
        yield field.forbidden("spec", _STATEFUL_SET_IMMUTABLE)


def replication_controller(manifest: Manifest) -> Causes:
    """Validates a ReplicationController."""
    spec = manifest.get("spec") or {}
    yield from _counts(spec, "replicas", "minReadySeconds")
    selector, pod = spec.get("selector") or {}, spec.get("template")
    if not selector:
        yield field.required("spec.selector")
    if pod is None:
        yield field.required("spec.template")
        return
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        yield field.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    yield from template(pod, "spec.template")
    policy = (pod.get("spec") or {}).get("restartPolicy")
    if policy in ("Never", "OnFailure"):
        yield field.unsupported("spec.template.spec.restartPolicy", policy, ["Always"])


def pod_template(manifest: Manifest) -> Causes:
    """Validates a PodTemplate."""
    return template(manifest.get("template") or {}, "template")


_JOB_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip


def job(manifest: Manifest) -> Causes:
    """Validates a batch/v1 Job."""
    spec, metadata = manifest.get("spec") or {}, manifest["metadata"]
    yield from job_spec(spec, "spec")
    selector = spec.get("selector") or {}
    uid = metadata.get("uid") or ""
    generated = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not spec.get("manualSelector") and selector != generated:
        yield field.invalid("spec.selector", selector, "`selector` not auto-generated")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not list(label_selector(selector, "")) and not _matches(selector, labels):
        yield field.invalid("spec.template.metadata.labels", labels or None, _MISMATCH)


def new_job(manifest: Manifest) -> Causes:
    """Validates the name of a new Job: with an index, it is the host name of a pod."""
    spec, name = manifest.get("spec") or {}, manifest["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        longest = f"{name}-{spec['completions'] - 1}"
        if dns_label(longest):
            message = f"will not able to create pod with invalid DNS label: {longest}"
            yield field.invalid("metadata.name", name, message)


def job_spec(spec: Manifest, path: str) -> Causes:
    """Validates the spec of a Job or job template."""
    for name in _JOB_COUNTS:
        yield from field.not_negative(f"{path}.{name}", spec.get(name))
    yield from field.one_of(f"{path}.completionMode", spec.get("completionMode"), ("NonIndexed", "Indexed"))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield field.required(f"{path}.completions", "when completion mode is Indexed")
    replacement = spec.get("podReplacementPolicy")
    policies = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    yield from field.one_of(f"{path}.podReplacementPolicy", replacement, policies)
    yield from managed_by(spec, path)
    yield from indexed_settings(spec, path)
    yield from failure_policy(spec, f"{path}.podFailurePolicy")
    yield from success_policy(spec, f"{path}.successPolicy")
    pod = spec.get("template") or {}
    yield from template(pod, f"{path}.template")
    policy = (pod.get("spec") or {}).get("restartPolicy")
    where = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield field.required(where, 'valid values: "OnFailure", "Never"')
    elif spec.get("podFailurePolicy") and policy != "Never":
        yield field.invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')


def job_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates the immutable fields of a Job."""
    if subresource == "status":
        return
    after, before = new["spec"], old["spec"]
    yield from _completions_update(after, before)
    for name in (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        yield from field.immutable(f"spec.{name}", after.get(name), before.get(name))
    suspended = before.get("suspend") and not (old.get("status") or {}).get("startTime")
    if not suspended:
        yield from field.immutable("spec.template", after.get("template"), before.get("template"))


def _completions_update(after: Manifest, before: Manifest) -> Causes:
    """The completions of an Indexed job may change together with its parallelism."""
    completions = after.get("completions")
    if completions == before.get("completions"):
        return
    if after.get("completionMode") != "Indexed" or completions is None or before.get("completions") is None:
        yield from field.immutable("spec.completions", completions, before.get("completions"))
    elif completions != after.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        yield field.invalid("spec.completions", completions, detail)


def cron_job(manifest: Manifest) -> Causes:
    """Validates a batch/v1 CronJob."""
    spec = manifest.get("spec") or {}
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        yield field.required("spec.schedule")
    elif re.match(r"(CRON_)?TZ=", schedule):
        yield field.invalid(
            "spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        )
    else:
        try:
            cron.parse(schedule)
        except ValueError as error:
            yield field.invalid("spec.schedule", schedule, str(error))
    if zone is not None:
        yield from _zone(zone)
    yield from field.not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    policies = ("Allow", "Forbid", "Replace")
    yield from field.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies, needed=True)
    yield from _counts(spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


def _zone(name: str) -> Causes:
    if not name:
        yield field.invalid("spec.timeZone", name, "timeZone must be nil or non-empty string")
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield field.invalid("spec.timeZone", name, f"unknown time zone {name}")


def controller_revision(manifest: Manifest) -> Causes:
    """Validates a ControllerRevision."""
    yield from field.not_negative("revision", manifest.get("revision"))
    if manifest.get("data") is None:
        yield field.required("data", "data is mandatory")
    elif not isinstance(manifest["data"], dict):
        yield field.required("data", "data must be a valid JSON object")


def controller_revision_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("data", new.get("data"), old.get("data"))


def budget(manifest: Manifest) -> Causes:
    """Validates a PodDisruptionBudget."""
    spec = manifest.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        yield field.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from count_or_percent(value, f"spec.{name}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    yield from field.one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
    yield from label_selector(spec.get("selector"), "spec.selector")


def lease(manifest: Manifest) -> Causes:
    """Validates a Lease."""
    spec = manifest.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield field.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from field.not_negative("spec.leaseTransitions", transitions)
    if name := spec.get("strategy"):
        yield from field.each("spec.strategy", name, dns_subdomain(name.partition("/")[0]))

"""PodSecurity: rejects pods that violate the level of their namespace, and warns about workloads that would."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from volcano.apiserver.admission.podsecurity.checks import Violation
from volcano.apiserver.admission.podsecurity.policy import (
    LEVELS,
    PREFIX,
    PRIVILEGED,
    LevelVersion,
    PodSecurityConfiguration,
    Policy,
    policy_of,
)
from volcano.apiserver.audit_annotations import annotate
from volcano.apiserver.authz.pod_references import CONTAINER_LISTS
from volcano.apiserver.errors import forbidden, invalid
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.schema.well_formed import well_formed
from volcano.apiserver.storage.content_cache import IdentityCache
from volcano.apiserver.storage.history import Change
from volcano.apiserver.warnings import warn
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, controller_of, labels_of

MOST_PODS = 3000  # that are evaluated when the level of a namespace changes
# Paths of pods that change nothing that is checked.
_IGNORED = frozenset(("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"))
_NAMESPACES = kinds.NAMESPACE.resource
_CHECKED_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
)
# A pod template and the text that introduces it in warnings.
Templates = Iterator[tuple[str, Mapping[str, Any]]]
_is_pod_spec = well_formed("core.v1.PodSpec")


class PodSecurity:
    """Admission plugin for pods, for workloads with pod templates and for the labels of namespaces."""

    def __init__(self, configuration: PodSecurityConfiguration | None = None) -> None:
        self._configuration = configuration or PodSecurityConfiguration()
        self._unchecked: set[str] = set()  # namespaces whose policy allows everything
        self._results: IdentityCache[tuple[LevelVersion, list[Violation]]] = IdentityCache()

    def on_change(self, collection: str, change: Change) -> None:
        """Observes the store: a changed namespace may have another policy."""
        if collection == _NAMESPACES:
            self._unchecked.discard(change.key.name)

    def forget(self) -> None:
        """Drops what was cached about namespaces."""
        self._unchecked.clear()

    def handles(self, kind: Kind) -> bool:
        return kind in (kinds.POD, kinds.NAMESPACE) or kind in TEMPLATES

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or request.key.namespace in self._unchecked:
            return new
        if request.kind == kinds.POD:
            if request.subresource not in _IGNORED:
                self._check_pod(request, new, old, lookup)
        elif request.subresource:
            return new
        elif request.kind == kinds.NAMESPACE:
            self._check_namespace(request, new, old, lookup)
        else:
            self._check_workload(request, new, lookup)
        return new

    def _check_pod(self, request: Attributes, pod: Manifest, old: Manifest | None, lookup: Lookup) -> None:
        policy = self._policy(request, lookup)
        if policy is None or policy.allows_everything:
            return
        if old is not None and not _is_significant(pod["spec"], old["spec"]):
            return
        if self._is_exempt_class(pod["spec"]):
            return
        metadata, spec = pod["metadata"], pod["spec"]
        annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
        enforced = self._violations(policy.enforce, metadata, spec)
        self._audit(policy, metadata, spec)
        if enforced:
            raise forbidden(
                request.kind,
                request.key.name,
                f'violates PodSecurity "{policy.enforce}": {_shown(enforced)}',
            )
        if violations := self._violations(policy.warn, metadata, spec):
            warn(f'would violate PodSecurity "{policy.warn}": {_shown(violations)}')

    def _check_workload(self, request: Attributes, workload: Manifest, lookup: Lookup) -> None:
        """Pods are created later, by controllers: here the user can only be warned."""
        policy = self._policy(request, lookup)
        if policy is None or policy.warn.level == policy.audit.level == PRIVILEGED:
            return
        for name, template in TEMPLATES[request.kind](workload):
            metadata, spec = template.get("metadata") or {}, template.get("spec")
            if not isinstance(spec, dict) or not _is_pod_spec(spec) or self._is_exempt_class(spec):
                continue
            self._audit(policy, metadata, spec)
            if violations := policy.warn.violations(metadata, spec):
                warn(f'{name}would violate PodSecurity "{policy.warn}": {_shown(violations)}')

    def _check_namespace(
        self, request: Attributes, new: Manifest, old: Manifest | None, lookup: Lookup
    ) -> None:
        defaults, name = self._configuration.defaults, request.key.name
        policy, causes = policy_of(labels_of(new), defaults)
        before, former_causes = policy_of(labels_of(old), defaults) if old is not None else (policy, [])
        if causes and causes != former_causes:
            raise invalid(request.kind, name, causes)
        if name in self._configuration.namespaces:
            _warn_of_exemption(name, policy, defaults, labels_of(new))
        elif old is not None and _is_stricter(policy.enforce, before.enforce):
            pods = (pod for pod in lookup.all(kinds.POD, name) if not self._is_exempt_class(pod["spec"]))
            for text in _existing_violations(name, policy.enforce, pods):
                warn(text)

    def _policy(self, request: Attributes, lookup: Lookup) -> Policy | None:
        """The policy for a request; None when its user or namespace is exempt."""
        configuration, namespace = self._configuration, request.key.namespace
        if namespace in configuration.namespaces or request.user.name in configuration.usernames:
            why = "namespace" if namespace in configuration.namespaces else "user"
            annotate(f"{PREFIX}exempt", why)
            return None
        found = lookup.find(kinds.NAMESPACE, Key("", namespace))
        if found is None:
            return configuration.defaults
        policy, causes = policy_of(labels_of(found), configuration.defaults)
        if causes:
            annotate(f"{PREFIX}error", f"Failed to parse policy: {causes[0].field}: {causes[0].message}")
        elif policy.allows_everything:
            self._unchecked.add(namespace)  # most namespaces: nothing is looked up for their pods again
        return policy

    def _is_exempt_class(self, spec: Mapping[str, Any]) -> bool:
        exempt = spec.get("runtimeClassName") in self._configuration.runtime_classes
        if exempt:
            annotate(f"{PREFIX}exempt", "runtimeClass")
        return exempt

    def _audit(self, policy: Policy, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        if violations := self._violations(policy.audit, metadata, spec):
            text = f'would violate PodSecurity "{policy.audit}": {_shown(violations)}'
            annotate(f"{PREFIX}audit-violations", text)

    def _violations(
        self, level: LevelVersion, metadata: Mapping[str, Any], spec: Mapping[str, Any]
    ) -> list[Violation]:
        """As `LevelVersion.violations`, once for all pods that share a spec."""
        if level.level == PRIVILEGED:
            return []
        if any(key.startswith(_CHECKED_ANNOTATIONS) for key in metadata.get("annotations") or ()):
            return level.violations(metadata, spec)
        known = self._results.get(spec)
        if known is not None and known[0] == level:
            return known[1]
        violations = level.violations(metadata, spec)
        self._results.put(spec, (level, violations))
        return violations


def _shown(violations: Iterable[Violation]) -> str:
    return ", ".join(map(str, violations))


def _is_significant(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update of a pod changes images or containers; the rest of a running pod does not matter."""

    def images(spec: Mapping[str, Any]) -> list[Any]:
        lists = ((name, spec.get(name) or ()) for name in CONTAINER_LISTS)
        return [(name, [each.get("image") for each in containers]) for name, containers in lists]

    return images(new) != images(old)


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether pods that were allowed may not be allowed any more."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.version != old.version or LEVELS.index(new.level) > LEVELS.index(old.level)


def _existing_violations(namespace: str, level: LevelVersion, pods: Iterable[Manifest]) -> Iterator[str]:
    """Warnings about the pods that violate a new level; one pod of each workload is evaluated first."""
    first: list[Manifest] = []
    others: list[Manifest] = []
    seen: set[str] = set()
    for pod in pods:
        owner = (controller_of(pod) or {}).get("uid", "")
        (others if owner and owner in seen else first).append(pod)
        seen.add(owner)
    ordered = [*first, *others]
    found: dict[str, list[str]] = {}
    for pod in ordered[:MOST_PODS]:
        violations = level.violations(pod["metadata"], pod["spec"])
        if violations:
            reasons = ", ".join(violation.reason for violation in violations)
            found.setdefault(reasons, []).append(pod["metadata"]["name"])
    if len(ordered) > MOST_PODS:
        yield (
            f"new PodSecurity enforce level only checked against the first {MOST_PODS} of {len(ordered)} "
            "existing pods"
        )
    if found:
        yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
    yield from sorted(f"{_counted(names)}: {reasons}" for reasons, names in found.items())


def _counted(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"


def _warn_of_exemption(name: str, policy: Policy, defaults: Policy, labels: Mapping[str, str]) -> None:
    if policy.allows_everything or policy == defaults:
        return
    explicit = ", ".join(
        f"{mode}={level}"
        for mode, level in zip(policy._fields, policy, strict=True)
        if level.level != PRIVILEGED and not {f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"}.isdisjoint(labels)
    )
    warn(f'namespace "{name}" is exempt from Pod Security, and the policy ({explicit}) will be ignored')


def _template(workload: Manifest) -> Templates:
    template = (workload.get("spec") or {}).get("template")
    if isinstance(template, dict):
        yield "", template


def _pod_template(workload: Manifest) -> Templates:
    if isinstance(workload.get("template"), dict):
        yield "", workload["template"]


def _cron_job(workload: Manifest) -> Templates:
    yield from _template((workload.get("spec") or {}).get("jobTemplate") or {})


def _tasks(spec: Any) -> Templates:
    """The pod templates of a Volcano Job."""
    for task in (spec or {}).get("tasks") or ():
        if isinstance(task.get("template"), dict):
            yield f'task "{task.get("name") or ""}": ', task["template"]


def _job_tasks(workload: Manifest) -> Templates:
    return _tasks(workload.get("spec"))


def _cron_job_tasks(workload: Manifest) -> Templates:
    return _tasks(((workload.get("spec") or {}).get("jobTemplate") or {}).get("spec"))


TEMPLATES: Mapping[Kind, Callable[[Manifest], Templates]] = {
    kinds.REPLICATION_CONTROLLER: _template,
    kinds.POD_TEMPLATE: _pod_template,
    kinds.DEPLOYMENT: _template,
    kinds.REPLICA_SET: _template,
    kinds.STATEFUL_SET: _template,
    kinds.DAEMON_SET: _template,
    kinds.BATCH_JOB: _template,
    kinds.BATCH_CRON_JOB: _cron_job,
    kinds.JOB: _job_tasks,
    kinds.CRON_JOB: _cron_job_tasks,
    kinds.JOB_TEMPLATE: _job_tasks,
}

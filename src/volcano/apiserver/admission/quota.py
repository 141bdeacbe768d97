"""ResourceQuotas: what a namespace uses, who may use more, and a status that keeps telling the truth."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from volcano.apiserver.admission.pod_usage import Amounts, amounts, requests_and_limits
from volcano.apiserver.errors import forbidden
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.apiserver.registry.prepare import qos_class
from volcano.clock import Instant
from volcano.kube import kinds, quantity
from volcano.kube.client import Event, Options, PatchType
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.operations import Patch

_ONE = Decimal(1)
# Kinds counted by a plain name too, as in `configmaps: 10`.
_PLAIN = {
    kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM, kinds.REPLICATION_CONTROLLER,
    kinds.RESOURCE_QUOTA, kinds.POD,
}  # fmt: skip
_REQUESTS_REQUIRED = ("cpu", "memory")
# Kinds whose updates can increase usage.
_GROWING = (kinds.POD, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM)
COUNTED: tuple[Kind, ...] = (
    kinds.POD, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM, kinds.CONFIG_MAP, kinds.SECRET,
    kinds.REPLICATION_CONTROLLER, kinds.RESOURCE_QUOTA, kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET,
    kinds.BATCH_JOB, kinds.BATCH_CRON_JOB,
)  # fmt: skip


def usage(kind: Kind, manifest: Manifest) -> Amounts:
    """The usage of one object, by every resource name that a quota may use."""
    used: Amounts = {f"count/{kind.resource}": _ONE}
    if kind in _PLAIN:
        used[kind.plural] = _ONE
    if kind == kinds.POD:
        if _is_over(manifest):
            return {f"count/{kind.resource}": _ONE}
        used |= _pod_usage(manifest["spec"])
    elif kind == kinds.SERVICE:
        used |= _service_usage(manifest.get("spec") or {})
    elif kind == kinds.PERSISTENT_VOLUME_CLAIM:
        used |= _claim_usage(manifest.get("spec") or {})
    return used


def _is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _pod_usage(spec: Manifest) -> Amounts:
    requests, limits = requests_and_limits(spec)
    used = {f"requests.{name}": value for name, value in requests.items()}
    used |= {f"limits.{name}": value for name, value in limits.items()}
    return used | {name: value for name, value in requests.items() if "/" not in name}


def _service_usage(spec: Manifest) -> Amounts:
    ports = len(spec.get("ports") or ())
    used: Amounts = {"services.nodeports": Decimal(0), "services.loadbalancers": Decimal(0)}
    if spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = _ONE
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        used["services.nodeports"] = Decimal(ports)
    return used


def _claim_usage(spec: Manifest) -> Amounts:
    asked = amounts((spec.get("resources") or {}).get("requests")).get("storage", Decimal(0))
    used: Amounts = {"requests.storage": asked}
    if name := spec.get("storageClassName"):
        used[f"{name}.storageclass.storage.k8s.io/requests.storage"] = asked
        used[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = _ONE
    return used


def in_scope(quota: Manifest, kind: Kind, manifest: Manifest) -> bool:
    """Whether a quota applies to this object; scopes select pods only."""
    spec = quota.get("spec") or {}
    rules = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    rules += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not rules:
        return True
    return kind == kinds.POD and all(_matches_scope(rule, manifest["spec"]) for rule in rules)


def _matches_scope(rule: Mapping[str, Any], spec: Manifest) -> bool:
    scope, operator, values = rule["scopeName"], rule.get("operator"), rule.get("values") or []
    if scope == "PriorityClass":
        name = spec.get("priorityClassName") or ""
        return {
            "In": name in values,
            "NotIn": name not in values,
            "Exists": bool(name),
            "DoesNotExist": not name,
        }.get(str(operator), False)
    terms = spec.get("affinity") or {}
    answers = {
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": spec.get("activeDeadlineSeconds") is None,
        "BestEffort": qos_class(spec) == "BestEffort",
        "NotBestEffort": qos_class(spec) != "BestEffort",
        "CrossNamespacePodAffinity": "namespaces" in str(terms) or "namespaceSelector" in str(terms),
    }
    return answers.get(scope, False)


def used_by(quota: Manifest, objects: Iterable[tuple[Kind, Manifest]]) -> Amounts:
    """The usage of these objects, for every resource that the quota limits."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    total = {name: Decimal(0) for name in hard}
    for kind, manifest in objects:
        if in_scope(quota, kind, manifest):
            for name, value in usage(kind, manifest).items():
                if name in total:
                    total[name] += value
    return total


def limited(quota: Manifest) -> tuple[Kind, ...]:
    """The kinds that a quota limits."""
    names = (quota.get("spec") or {}).get("hard") or {}
    return tuple(kind for kind in COUNTED if any(_is_about(name, kind) for name in names))


def _is_about(name: str, kind: Kind) -> bool:
    if name == f"count/{kind.resource}" or (kind in _PLAIN and name == kind.plural):
        return True
    if kind == kinds.SERVICE:
        return name.startswith("services.")
    storage = name == "requests.storage" or ".storageclass.storage.k8s.io/" in name
    if kind == kinds.PERSISTENT_VOLUME_CLAIM:
        return storage
    compute = name.startswith(("requests.", "limits.", "hugepages-")) or name in (
        *_REQUESTS_REQUIRED,
        "ephemeral-storage",
    )
    return kind == kinds.POD and compute and not storage


@admission_plugin()
async def admit_quota(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission plugin for ResourceQuotas. It is the last one: nothing is awaited between it and the write,
    so that usage as counted is usage as stored."""
    kind, namespace = attributes.kind, attributes.key.namespace
    if new is None or not kind.namespaced or attributes.subresource not in ("", "resize"):
        return new
    if old is not None and kind not in _GROWING:
        return new
    for quota in lookup.all(kinds.RESOURCE_QUOTA, namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        if not any(_is_about(name, kind) for name in hard) or not in_scope(quota, kind, new):
            continue
        if kind == kinds.POD and old is None:
            _check_requests_set(attributes, quota, new)
        asked = {name: value for name, value in usage(kind, new).items() if name in hard}
        before = usage(kind, old) if old is not None else {}
        more = {name: value - before.get(name, Decimal(0)) for name, value in asked.items()}
        if any(value > 0 for value in more.values()):
            present = [(kind, item) for item in lookup.all(kind, namespace)]
            _check_quota(attributes, quota, more, used_by(quota, present))
    return new


def _check_quota(attributes: Attributes, quota: Manifest, more: Amounts, used: Amounts) -> None:
    hard = quota["spec"]["hard"]
    over = sorted(
        name for name, value in more.items() if value > 0 and used[name] + value > quantity.parse(hard[name])
    )
    if over:
        name = quota["metadata"]["name"]
        requested = ",".join(f"{each}={_shown(more[each], hard[each])}" for each in over)
        in_use = ",".join(f"{each}={_shown(used[each], hard[each])}" for each in over)
        most = ",".join(f"{each}={quantity.canonical(hard[each])}" for each in over)
        why = f"exceeded quota: {name}, requested: {requested}, used: {in_use}, limited: {most}"
        raise forbidden(attributes.kind, attributes.key.name, why)


def _check_requests_set(attributes: Attributes, quota: Manifest, pod: Manifest) -> None:
    """Where cpu or memory is limited, every container must have requests or limits for it."""
    missing: dict[str, list[str]] = {}
    spec = pod["spec"]
    for resource in sorted(quota["spec"]["hard"]):
        part = "limits" if resource.startswith("limits.") else "requests"
        name = resource.removeprefix("limits.").removeprefix("requests.")
        if name not in _REQUESTS_REQUIRED:
            continue
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            if name not in ((container.get("resources") or {}).get(part) or {}):
                missing.setdefault(resource, []).append(container["name"])
    if missing:
        text = "; ".join(f"{name} for: {','.join(sorted(set(who)))}" for name, who in missing.items())
        why = f"failed quota: {quota['metadata']['name']}: must specify {text}"
        raise forbidden(attributes.kind, attributes.key.name, why)


def _shown(amount: Decimal, like: Any) -> str:
    """An amount with the same kind of suffix as in the quota."""
    return str(quantity.read(like)._replace(amount=amount))


class QuotaStatus(Reconciler):
    """Keeps `status.hard` and `status.used` of every quota true to what is there."""

    name = "quota-status"
    watches: Sequence[Watch] = tuple(Watch(kind) for kind in COUNTED)

    def __init__(self) -> None:
        super().__init__()
        for kind in COUNTED:
            self.indexer.facet(kind, "namespace", _namespace)

    def indifferent(self, event: Event) -> bool:
        return event.kind is not kinds.RESOURCE_QUOTA and not self._quotas_of(event)

    def _quotas_of(self, event: Event) -> list[Manifest]:
        """The quotas of an object's namespace."""
        return self.indexer.find(kinds.RESOURCE_QUOTA, "namespace", event.place().namespace)

    def keys(self, event: Event) -> Iterable[Hashable]:
        quotas = self._quotas_of(event)
        if not quotas and event.kind != kinds.RESOURCE_QUOTA:
            return ()
        own = [key_of(event.object)] if event.kind == kinds.RESOURCE_QUOTA else []
        return [*own, *(key_of(quota) for quota in quotas if event.kind in limited(quota))]

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        quota = self.indexer.get(kinds.RESOURCE_QUOTA, key)
        if quota is None or quota["metadata"].get("deletionTimestamp"):
            return NOTHING
        hard = (quota.get("spec") or {}).get("hard") or {}
        present = [
            (kind, item)
            for kind in limited(quota)
            for item in self.indexer.find(kind, "namespace", key.namespace)
        ]
        used = {name: _shown(value, hard[name]) for name, value in used_by(quota, present).items()}
        wanted = {"hard": dict(hard), "used": used}
        if (quota.get("status") or {}) == wanted:
            return NOTHING
        patch = [{"op": "add", "path": "/status", "value": wanted}]
        options = Options(patch_type=PatchType.JSON)
        return Plan([Patch(kinds.RESOURCE_QUOTA, key, patch, "status", options)])


def _namespace(manifest: Manifest) -> Iterable[Hashable]:
    return (key_of(manifest).namespace,)

"""ResourceQuotas: the kinds a quota limits, its scopes, and the amounts that objects count for."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from volcano.kube.api import kinds, quantity
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, has_ended
from volcano.kube.resources.pod_requests import Amounts, amounts, requests_and_limits
from volcano.kube.resources.qos import qos_class

_ONE = Decimal(1)
# Kinds counted by a plain name too, as in `configmaps: 10`.
_PLAIN = {
    kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM, kinds.REPLICATION_CONTROLLER,
    kinds.RESOURCE_QUOTA, kinds.POD,
}  # fmt: skip
COMPUTE = ("cpu", "memory")
COUNTED: tuple[Kind, ...] = (
    kinds.POD, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM, kinds.CONFIG_MAP, kinds.SECRET,
    kinds.REPLICATION_CONTROLLER, kinds.RESOURCE_QUOTA, kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET,
    kinds.BATCH_JOB, kinds.BATCH_CRON_JOB,
)  # fmt: skip


def usage(kind: Kind, manifest: Manifest) -> Amounts:
    """The usage of one object, under every name that a quota may use."""
    used: Amounts = {f"count/{kind.resource}": _ONE}
    if kind in _PLAIN:
        used[kind.plural] = _ONE
    if kind == kinds.POD:
        if has_ended(manifest):
            return {f"count/{kind.resource}": _ONE}
        used |= _pod_usage(manifest["spec"])
    elif kind == kinds.SERVICE:
        used |= _service_usage(manifest.get("spec") or {})
    elif kind == kinds.PERSISTENT_VOLUME_CLAIM:
        used |= _claim_usage(manifest.get("spec") or {})
    return used


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
    """Whether the scopes of a quota select an object; only pods can be selected by scopes."""
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
    """The usage of objects for every resource that a quota limits."""
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
    return tuple(kind for kind in COUNTED if any(is_limited_by(name, kind) for name in names))


def is_limited_by(name: str, kind: Kind) -> bool:
    if name == f"count/{kind.resource}" or (kind in _PLAIN and name == kind.plural):
        return True
    if kind == kinds.SERVICE:
        return name.startswith("services.")
    storage = name == "requests.storage" or ".storageclass.storage.k8s.io/" in name
    if kind == kinds.PERSISTENT_VOLUME_CLAIM:
        return storage
    compute = name.startswith(("requests.", "limits.", "hugepages-")) or name in (
        *COMPUTE,
        "ephemeral-storage",
    )
    return kind == kinds.POD and compute and not storage


def format_amount(amount: Decimal, like: Any) -> str:
    """Formats an amount with the kind of suffix that the quota uses."""
    return str(quantity.read(like)._replace(amount=amount))

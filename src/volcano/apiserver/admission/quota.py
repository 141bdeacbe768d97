"""Admission by ResourceQuotas: rejects writes that would exceed a quota of their namespace."""

from decimal import Decimal

from volcano.apiserver.errors import forbidden
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.kube.api import kinds, quantity
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import Amounts
from volcano.kube.resources.quota import COMPUTE, format_amount, in_scope, is_limited_by, usage, used_by

# Kinds whose updates can increase usage.
_GROWING = (kinds.POD, kinds.SERVICE, kinds.PERSISTENT_VOLUME_CLAIM)


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
        if not any(is_limited_by(name, kind) for name in hard) or not in_scope(quota, kind, new):
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
        requested = ",".join(f"{each}={format_amount(more[each], hard[each])}" for each in over)
        in_use = ",".join(f"{each}={format_amount(used[each], hard[each])}" for each in over)
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
        if name not in COMPUTE:
            continue
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            if "name" not in container:
                continue  # validation rejects the pod
            if name not in ((container.get("resources") or {}).get(part) or {}):
                missing.setdefault(resource, []).append(container["name"])
    if missing:
        text = "; ".join(f"{name} for: {','.join(sorted(set(who)))}" for name, who in missing.items())
        why = f"failed quota: {quota['metadata']['name']}: must specify {text}"
        raise forbidden(attributes.kind, attributes.key.name, why)

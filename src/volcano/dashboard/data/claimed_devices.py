"""Devices that a node publishes in ResourceSlices, with the pods that hold them through ResourceClaims."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from volcano.dashboard.data.devices import Device, Owner
from volcano.kube.api import quantity
from volcano.kube.api.fields import at, items
from volcano.kube.api.manifest import Manifest, key_of
from volcano.views.amounts import shown
from volcano.views.pods import job_of

Name = tuple[str, str, str]  # driver, pool and device
Jobs = Mapping[str, str]  # jobs by `namespace/name` of their pods


def claimed_devices(
    slices: Iterable[Manifest], claims: Iterable[Manifest], pods: Iterable[Manifest]
) -> tuple[Device, ...]:
    """Devices of the newest generation of each pool; `pods` are those of the node."""
    jobs = {str(key_of(pod)): job_of(pod) for pod in pods}
    owners = _owners(claims, jobs)
    newest: dict[tuple[str, str], int] = {}
    listed = list(slices)
    for part in listed:
        pool = _pool(part)
        newest[pool] = max(newest.get(pool, 0), _generation(part))
    return tuple(
        _device(part, device, owners)
        for part in sorted(listed, key=key_of)
        if _generation(part) == newest[_pool(part)]
        for device in items(part, "spec", "devices")
    )


def _device(part: Manifest, device: Mapping[str, object], owners: Mapping[Name, tuple[Owner, ...]]) -> Device:
    driver, pool = _pool(part)
    attributes = {
        name.rpartition("/")[2]: str(next(iter(value.values()), ""))
        for name, value in (at(device, "attributes", default={}) or {}).items()
    }
    product = attributes.get("productName") or attributes.get("model") or ""
    profile = attributes.get("profile", "")
    memory = str(at(device, "capacity", "memory", "value", default="") or "")
    name = str(device.get("name", ""))
    return Device(
        name=name,
        kind=f"{driver} {profile}".strip(),
        owners=owners.get((driver, pool, name), ()),
        capacity=", ".join(filter(None, (product, _memory(memory)))),
        healthy=not any(taint.get("effect") == "NoExecute" for taint in items(device, "taints")),
        uuid=attributes.get("uuid", ""),
        pool=f"{driver}/{pool}",
    )


def _owners(claims: Iterable[Manifest], jobs: Jobs) -> dict[Name, tuple[Owner, ...]]:
    found: dict[Name, list[Owner]] = defaultdict(list)
    for claim in claims:
        namespace = key_of(claim).namespace
        pods = [f"{namespace}/{each.get('name')}" for each in items(claim, "status", "reservedFor")]
        part = f"claim {key_of(claim).name}"
        for name in claim_results(claim):
            if not pods:
                found[name].append(
                    Owner(f"{namespace}/{key_of(claim).name}", "", "allocated, used by no pod")
                )
            found[name] += [Owner(pod, jobs.get(pod, ""), part, 1 / len(pods)) for pod in pods]
    return {name: tuple(owners) for name, owners in found.items()}


def claim_results(claim: Manifest) -> Iterator[Name]:
    """Devices that were allocated for a claim."""
    for result in items(claim, "status", "allocation", "devices", "results"):
        yield str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def _pool(part: Manifest) -> tuple[str, str]:
    return str(at(part, "spec", "driver", default="")), str(at(part, "spec", "pool", "name", default=""))


def _generation(part: Manifest) -> int:
    return int(at(part, "spec", "pool", "generation", default=0) or 0)


def _memory(text: str) -> str:
    try:
        return shown("memory", float(quantity.parse(text))) if text else ""
    except ValueError:
        return ""

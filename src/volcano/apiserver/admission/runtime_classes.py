"""Admission of pods with a RuntimeClass: it must exist; its overhead, node selector and tolerations apply."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.apiserver.errors import forbidden
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.quantity import parse


@admission_plugin(kinds.POD)
async def admit_runtime_class(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Completes a new pod by its RuntimeClass."""
    if new is None or old is not None or attributes.subresource:
        return new
    spec = new["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise _rejected(
                attributes, "Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return new
    found = lookup.find(kinds.RUNTIME_CLASS, Key("", name))
    if found is None:
        raise _rejected(attributes, f'RuntimeClass "{name}" not found')
    new["spec"] = {
        **spec,  # the original may be shared with other pods
        **_overhead(attributes, spec, found),
        **_scheduling(attributes, spec, found.get("scheduling") or {}),
    }
    return new


def _rejected(attributes: Attributes, why: str) -> Exception:
    return forbidden(attributes.kind, attributes.key.name, f"pod rejected: {why}")


def _overhead(attributes: Attributes, spec: Mapping[str, Any], found: Manifest) -> Manifest:
    wanted = (found.get("overhead") or {}).get("podFixed")
    given = spec.get("overhead")
    if not wanted:
        if given:
            raise _rejected(
                attributes, "Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return {}
    if given and _amounts(given) != _amounts(wanted):
        raise _rejected(attributes, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return {"overhead": dict(wanted)}


def _amounts(quantities: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse(str(value)) for name, value in quantities.items()}


def _scheduling(attributes: Attributes, spec: Mapping[str, Any], scheduling: Mapping[str, Any]) -> Manifest:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        own = selector.setdefault(key, value)
        if own != value:
            raise forbidden(
                attributes.kind,
                attributes.key.name,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own}",
            )
    changed: Manifest = {"nodeSelector": selector} if selector else {}
    tolerations = scheduling.get("tolerations") or ()
    if tolerations:
        changed["tolerations"] = merged_tolerations([*(spec.get("tolerations") or ()), *tolerations])
    return changed


def merged_tolerations(tolerations: Iterable[Mapping[str, Any]]) -> list[Manifest]:
    """Tolerations without those that another one includes."""
    every = [dict(toleration) for toleration in tolerations]
    merged: list[Manifest] = []
    for index, one in enumerate(every):
        later = (other for other in every[index + 1 :] if other != one)
        if not any(_includes(other, one) for other in (*merged, *later)):
            merged.append(one)
    return merged


def _includes(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether one toleration tolerates everything that another one tolerates."""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if (wide.get("key") or "") != (narrow.get("key") or "") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect"):
        return False
    seconds = wide.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and seconds is not None:
        other = narrow.get("tolerationSeconds")
        if other is None or other > seconds:
            return False
    if exists:
        return True
    same_value = (narrow.get("value") or "") == (wide.get("value") or "")
    return same_value and (narrow.get("operator") or "Equal") == "Equal"

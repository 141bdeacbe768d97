"""Updates of CertificateSigningRequests: the request is immutable, decisions and certificates have their own paths."""

from volcano.apiserver.schema.validation.certificates import DECISIONS
from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest


def prepare_certificate_update(new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
    """Keeps the fields that this (sub)resource may not change: all but metadata on a plain update, all but conditions
    on an approval, and the decisions on an update of the status."""
    submitted = new.get("status") or {}
    before = old.get("status") or {}
    new["spec"] = old.get("spec") or {}
    if not subresource:
        new["status"] = before
        return
    conditions = [dict(each) for each in submitted.get("conditions") or () if isinstance(each, dict)]
    if subresource == "status":
        _keep_decisions(conditions, before.get("conditions") or [])
    _set_timestamps(conditions, before.get("conditions") or [], now)
    source = before if subresource == "approval" else submitted
    status = {name: value for name, value in source.items() if name != "conditions"}
    new["status"] = {"conditions": conditions, **status} if conditions else status


def _keep_decisions(conditions: list[Manifest], before: list[Manifest]) -> None:
    """Replaces decisions by the stored ones, in place; validation rejects it when their number differs."""
    for type_ in DECISIONS:
        stored = [each for each in before if each.get("type") == type_]
        places = [index for index, each in enumerate(conditions) if each.get("type") == type_]
        if len(stored) == len(places):
            for index, condition in zip(places, stored, strict=True):
                conditions[index] = dict(condition)


def _set_timestamps(conditions: list[Manifest], before: list[Manifest], now: Instant) -> None:
    known = {
        (each.get("type"), each.get("status")): each["lastTransitionTime"]
        for each in before
        if each.get("lastTransitionTime")
    }
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now.timestamp()
        if not condition.get("lastTransitionTime"):
            key = (condition.get("type"), condition.get("status"))
            condition["lastTransitionTime"] = known.get(key, now.timestamp())

"""Writes under review: small objects, what stands beside them, and what admission says about them."""

from collections.abc import Mapping
from typing import Any

from volcano.kube.api.kinds import QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest
from volcano.webhooks.rules import mutate, validate


class Objects:
    """The objects rules may look at."""

    def __init__(self, objects: Mapping[Kind, list[Manifest]] | None = None) -> None:
        self._objects = {QUEUE: [queue("root"), queue("default", parent="root")], **(objects or {})}

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        return next((m for m in self._objects.get(kind, ()) if key_of(m) == key), None)

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        return self._objects.get(kind, [])


def queue(
    name: str, *, state: str = "Open", annotations: dict[str, str] | None = None, **spec: Any
) -> Manifest:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"weight": 1, **spec}, "status": {"state": state}}


def task(name: str = "worker", replicas: int = 2, **fields: Any) -> Manifest:
    container = {"name": "c", "image": "i"}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **fields}


def job(*tasks: Manifest, name: str = "train", **spec: Any) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": list(tasks or (task(),)), **spec},
    }


def review(
    kind: Kind,
    new: Manifest | None,
    old: Manifest | None = None,
    objects: Mapping[Kind, list[Manifest]] | None = None,
    options: AdmissionOptions | None = None,
) -> AdmissionRequest:
    operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
    subject = new or old
    assert subject is not None
    return AdmissionRequest(
        operation, kind, key_of(subject), new, old, Objects(objects), options or AdmissionOptions()
    )


def found(request: AdmissionRequest) -> dict[str, str]:
    """Violations by field, after defaults as the server applies them."""
    apply_mutator = mutate(request)
    fields = (
        request.operation,
        request.kind,
        request.key,
        apply_mutator,
        request.old,
        request.lookup,
        request.options,
    )
    return {violation.field: violation.message for violation in validate(AdmissionRequest(*fields))}

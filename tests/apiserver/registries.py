"""Registries to test with: the real strategies, a virtual clock, counted uids, seeded names."""

import itertools
from random import Random

from volcano.apiserver.admission.claims import admit_claim
from volcano.apiserver.admission.pods import PodAdmission, admit_limits
from volcano.apiserver.admission.quota import admit_quota
from volcano.apiserver.admission.services import ServiceAdmission
from volcano.apiserver.interfaces import AdmissionFunction, AdmissionPlugin
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import admit_crd
from volcano.apiserver.schema.crds import served as serve_crd
from volcano.apiserver.storage.store import Store
from volcano.base.clock import Clock, VirtualClock
from volcano.kube.api.manifest import Manifest


def registry(
    store: Store | None = None,
    *,
    admit: AdmissionFunction | None = None,
    clock: Clock | None = None,
    prefix: str = "uid",
) -> Registry:
    """A registry over an empty store (or the one given); CRDs are served as they come."""
    store = store or Store()
    table = KindTable(built_in_kinds())
    table.follow(store, serve_crd)
    count = itertools.count(1)
    return Registry(
        store,
        table,
        clock=clock or VirtualClock(),
        random=Random(1),
        new_uid=lambda: f"{prefix}-{next(count)}",
        admit=admit,
    )


def pod(name: str = "web", namespace: str = "default", **spec: object) -> Manifest:
    """A small valid pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


def config_map(name: str = "settings", namespace: str = "default", **data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def resource_plugins() -> list[AdmissionPlugin]:
    """The plugins of the admission chain that default, limit and count, in its order."""
    return [PodAdmission(), admit_claim, admit_crd, admit_limits, ServiceAdmission(), admit_quota]

"""Every namespace gets its default service account and the server's certificate, and keeps them."""

from volcano.base.clock import Instant
from volcano.controllers.kubernetes.service_accounts import (
    NamespaceAccounts,
    certificate_map,
    default_account,
)
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.operations import Create, Operation, Patch
from volcano.kube.client.protocol import Event, EventType
from volcano.kube.controllers.controller import WorkResult

NOW = Instant(1_800_000_000.0, 0.0)


def seen(manifest: Manifest, version: int, **metadata: str) -> Manifest:
    return {
        **manifest,
        "metadata": {"uid": "u", **manifest["metadata"], **metadata, "resourceVersion": str(version)},
    }


def namespace(version: int = 1, **metadata: str) -> Manifest:
    return seen({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, version, **metadata)


def writes(controller: NamespaceAccounts) -> list[Operation]:
    return [operation for work in controller.step(NOW) for operation in work.operations]


def test_a_new_namespace_gets_both() -> None:
    controller = NamespaceAccounts("PEM")
    controller.on_event(Event(EventType.ADDED, NAMESPACE, namespace()))
    assert writes(controller) == [
        Create(SERVICE_ACCOUNT, default_account("team")),
        Create(CONFIG_MAP, certificate_map("team", "PEM")),
    ]


def test_what_is_there_is_left_alone_and_what_goes_missing_is_put_back() -> None:
    controller = NamespaceAccounts()
    account = seen(default_account("team"), 2)
    controller.on_event(Event(EventType.ADDED, NAMESPACE, namespace()))
    controller.on_event(Event(EventType.ADDED, SERVICE_ACCOUNT, account))
    assert writes(controller) == []
    controller.on_event(Event(EventType.DELETED, SERVICE_ACCOUNT, seen(account, 3)))
    (work,) = controller.step(NOW)
    assert work.operations == (Create(SERVICE_ACCOUNT, default_account("team")),)
    controller.on_result(WorkResult(work, (seen(account, 4, uid="v"),)), NOW)
    assert writes(controller) == []


def test_an_old_certificate_is_replaced() -> None:
    controller = NamespaceAccounts("new")
    objects: list[tuple[Kind, Manifest]] = [
        (NAMESPACE, namespace()),
        (SERVICE_ACCOUNT, seen(default_account("team"), 2)),
        (CONFIG_MAP, seen(certificate_map("team", "old"), 3)),
    ]
    for kind, manifest in objects:
        controller.on_event(Event(EventType.ADDED, kind, manifest))
    (patch,) = writes(controller)
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"ca.crt": "new"}}


def test_a_namespace_on_its_way_out_gets_nothing() -> None:
    controller = NamespaceAccounts("PEM")
    controller.on_event(
        Event(EventType.ADDED, NAMESPACE, namespace(deletionTimestamp="2026-01-01T00:00:00Z"))
    )
    assert writes(controller) == []

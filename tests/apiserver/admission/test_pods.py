"""The server's own admission of pods: priority, account, tolerations, limits; and addresses of services."""

import copy
from typing import Any

import pytest

from tests.apiserver.registries import resource_plugins
from volcano.apiserver.admission.chain import chain
from volcano.apiserver.bootstrap import system_priority_classes
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.registry.strategies import strategy_for
from volcano.base.clock import Instant
from volcano.kube.api.errors import Forbidden, Invalid
from volcano.kube.api.kinds import (
    LIMIT_RANGE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of

ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "default"},
}
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


class Objects:
    """What is stored, as admission may look it up."""

    def __init__(self, *objects: tuple[Kind, Manifest]) -> None:
        self._objects = objects

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        return next((copy.deepcopy(m) for k, m in self._objects if k == kind and key_of(m) == key), None)

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        return [
            copy.deepcopy(m)
            for k, m in self._objects
            if k == kind and namespace in ("", m["metadata"].get("namespace", ""))
        ]


def pod(**spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


async def admitted(manifest: Manifest, *objects: tuple[Kind, Manifest], kind: Kind = POD) -> Manifest:
    """A new object after defaults and the server's own admission."""
    strategy = strategy_for(kind)
    strategy.default(manifest)
    strategy.prepare_for_create(manifest, Instant(0, 0))
    admit = chain(*resource_plugins())
    stored = Objects((SERVICE_ACCOUNT, ACCOUNT), *objects)
    result = await admit(Attributes("create", kind, key_of(manifest)), manifest, None, stored)
    assert result is not None
    assert strategy.validate(result, None, "") == []
    return result


def priority_class(name: str, value: int, **more: Any) -> tuple[Kind, Manifest]:
    return PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, **more}


@pytest.mark.parametrize(
    ("wanted", "classes", "priority", "policy"),
    [
        pytest.param("", [], 0, "PreemptLowerPriority", id="no class at all"),
        pytest.param("high", [("high", 500, {})], 500, "PreemptLowerPriority", id="its class"),
        pytest.param(
            "calm", [("calm", 5, {"preemptionPolicy": "Never"})], 5, "Never", id="its class's policy"
        ),
        pytest.param(
            "", [("usual", 7, {"globalDefault": True})], 7, "PreemptLowerPriority", id="the default"
        ),
    ],
)
async def test_priority_comes_from_the_class(
    wanted: str, classes: list[Any], priority: int, policy: str
) -> None:
    stored = [priority_class(name, value, **more) for name, value, more in classes]
    spec = (await admitted(pod(**({"priorityClassName": wanted} if wanted else {})), *stored))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (priority, policy)
    assert spec.get("priorityClassName") == (classes[0][0] if classes else None)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priorityClassName": "high", "priority": 3},
            "the integer value of priority (3) must not be provided in pod spec; "
            "priority admission controller computed 500 from the given PriorityClass name",
        ),
        (
            {"serviceAccountName": "ghost"},
            'error looking up service account default/ghost: serviceaccount "ghost" not found',
        ),
    ],
)
async def test_a_pod_that_names_what_is_not_there_is_refused(spec: Manifest, why: str) -> None:
    with pytest.raises(Forbidden) as refused:
        await admitted(pod(**spec), priority_class("high", 500))
    assert refused.value.message == f'pods "p" is forbidden: {why}'


def test_the_system_classes_are_valid() -> None:
    for manifest in system_priority_classes():
        strategy_for(PRIORITY_CLASS).default(manifest)
        assert strategy_for(PRIORITY_CLASS).validate(manifest, None, "") == []
    assert {each["value"] for each in system_priority_classes()} == {2_000_000_000, 2_000_001_000}


async def test_a_second_default_class_is_refused() -> None:
    second = {"metadata": {"name": "second"}, "value": 1, "globalDefault": True}
    with pytest.raises(
        Forbidden, match=r"PriorityClass first is already marked as default. Only one default can exist"
    ):
        await admitted(second, priority_class("first", 1, globalDefault=True), kind=PRIORITY_CLASS)


async def test_a_pod_runs_as_the_default_account_with_its_token_mounted() -> None:
    spec = (await admitted(pod()))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == (TOKENS, True)
    (volume,) = spec["volumes"]
    assert volume["name"] == mount["name"]
    assert mount["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]


async def test_a_pod_may_do_without_a_token() -> None:
    spec = (await admitted(pod(automountServiceAccountToken=False)))["spec"]
    assert "volumes" not in spec
    assert "volumeMounts" not in spec["containers"][0]


async def test_pods_wait_five_minutes_for_failed_nodes_unless_they_say_otherwise() -> None:
    usual = (await admitted(pod()))["spec"]["tolerations"]
    assert [(each["key"], each["tolerationSeconds"]) for each in usual] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    other = (await admitted(pod(tolerations=[own])))["spec"]["tolerations"]
    assert [each["key"] for each in other] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert "tolerationSeconds" not in other[0]
    everything = (await admitted(pod(tolerations=[{"operator": "Exists"}])))["spec"]["tolerations"]
    assert everything == [{"operator": "Exists"}]


def limits(*items: Manifest) -> tuple[Kind, Manifest]:
    manifest = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": list(items)},
    }
    strategy_for(LIMIT_RANGE).default(manifest)
    return LIMIT_RANGE, manifest


async def test_containers_that_ask_for_nothing_get_the_namespaces_defaults() -> None:
    found = await admitted(pod(), limits({"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}))
    assert found["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert found["status"]["qosClass"] == "Burstable"
    assert found["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
    )


def asking(cpu: str) -> Manifest:
    return pod(
        containers=[
            {"name": "main", "image": "a", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
        ]
    )


@pytest.mark.parametrize(
    ("item", "cpu", "why"),
    [
        (
            {"type": "Container", "max": {"cpu": "2"}},
            "3",
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            {"type": "Container", "min": {"cpu": "500m"}},
            "100m",
            "minimum cpu usage per Container is 500m, but request is 100m",
        ),
        ({"type": "Pod", "max": {"cpu": "2"}}, "3", "maximum cpu usage per Pod is 2, but limit is 3"),
    ],
)
async def test_too_little_and_too_much_is_refused(item: Manifest, cpu: str, why: str) -> None:
    with pytest.raises(Forbidden) as refused:
        await admitted(asking(cpu), limits(item))
    assert refused.value.message == f'pods "p" is forbidden: {why}'
    await admitted(asking("1"), limits(item))


async def test_claims_are_limited_too() -> None:
    claim = {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
    }
    rule = limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})
    with pytest.raises(
        Forbidden, match="maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Gi"
    ):
        await admitted(claim, rule, kind=PERSISTENT_VOLUME_CLAIM)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param(None, "new", id="the newest default"),
        pytest.param("", "", id="none on purpose"),
        pytest.param("own", "own", id="its own"),
    ],
)
async def test_a_claim_that_names_no_class_gets_the_default_one(given: str | None, stored: str) -> None:
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    classes = [
        (STORAGE_CLASS, {"metadata": {"name": name, "creationTimestamp": when, **more}})
        for name, when, more in (("old", "2020", marked), ("new", "2021", marked), ("other", "2022", {}))
    ]
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if given is not None:
        spec["storageClassName"] = given
    claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}
    found = await admitted(claim, *classes, kind=PERSISTENT_VOLUME_CLAIM)
    assert found["spec"]["storageClassName"] == stored


def service(name: str = "s", **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}], **spec},
    }


async def test_services_get_addresses_and_ports_that_nobody_has() -> None:
    first = await admitted(service("a", type="NodePort"), kind=SERVICE)
    again = await admitted(service("a", type="NodePort"), kind=SERVICE)
    assert first["spec"]["clusterIP"] == again["spec"]["clusterIP"]
    taken = copy.deepcopy(first)
    taken["metadata"] |= {"name": "other", "uid": "other"}
    second = await admitted(service("a", type="NodePort"), (SERVICE, taken), kind=SERVICE)
    assert second["spec"]["clusterIP"] != first["spec"]["clusterIP"]
    assert second["spec"]["clusterIPs"] == [second["spec"]["clusterIP"]]
    ports = [each["spec"]["ports"][0]["nodePort"] for each in (first, second)]
    assert ports[0] != ports[1]
    assert all(30_000 <= port <= 32_767 for port in ports)


async def test_an_address_that_is_taken_is_refused() -> None:
    taken = service("other", clusterIP="10.96.0.20")
    with pytest.raises(Invalid, match="provided IP is already allocated"):
        await admitted(service("s", clusterIP="10.96.0.20"), (SERVICE, taken), kind=SERVICE)


async def test_headless_and_external_services_get_no_address() -> None:
    headless = await admitted(service(clusterIP="None"), kind=SERVICE)
    assert headless["spec"]["clusterIPs"] == ["None"]
    external = await admitted(service(type="ExternalName", externalName="example.com"), kind=SERVICE)
    assert "clusterIP" not in external["spec"]

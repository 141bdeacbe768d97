"""Pods with a RuntimeClass: it must exist, and its overhead and scheduling apply."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.servers import Answered, TestServer
from volcano.apiserver.admission.runtime_classes import merged_tolerations
from volcano.kube.api.manifest import Manifest

PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


async def server_with(**fields: Any) -> TestServer:
    server = await TestServer(disabled_plugins=()).start()
    await server.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await server.made(CLASSES, {"metadata": {"name": "sandbox"}, "handler": "runsc", **fields})
    return server


async def create(server: TestServer, **spec: Any) -> Answered:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return await server.post(PODS, body)


async def test_a_pod_with_an_unknown_class_is_rejected() -> None:
    server = await server_with()
    refused = await create(server, runtimeClassName="other")
    assert refused.code == 403
    assert refused.message == 'pods "p" is forbidden: pod rejected: RuntimeClass "other" not found'
    assert (await create(server, runtimeClassName="sandbox")).code == 201


async def test_the_overhead_of_the_class_applies() -> None:
    server = await server_with(overhead={"podFixed": {"memory": "1024Mi", "cpu": "250m"}})
    refused = await create(server, runtimeClassName="sandbox", overhead={"cpu": "1"})
    assert refused.message == (
        "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    )
    created = await create(server, runtimeClassName="sandbox", overhead={"memory": "1Gi", "cpu": 0.25})
    assert created.json["spec"]["overhead"] == {"memory": "1Gi", "cpu": "250m"}


@pytest.mark.parametrize("name", [None, "sandbox"])
async def test_overhead_without_a_class_that_defines_it_is_rejected(name: str | None) -> None:
    server = await server_with()
    refused = await create(server, runtimeClassName=name, overhead={"cpu": "1"})
    assert refused.message == (
        'pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead'
    )


async def test_scheduling_of_the_class_is_merged() -> None:
    toleration = {"key": "sandbox", "operator": "Exists"}
    server = await server_with(scheduling={"nodeSelector": {"kind": "vm"}, "tolerations": [toleration]})
    refused = await create(server, runtimeClassName="sandbox", nodeSelector={"kind": "bare"})
    assert refused.message == (
        'pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kind] = vm; '
        "pod.spec.nodeSelector[kind] = bare"
    )
    narrow = {"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    created = await create(
        server, runtimeClassName="sandbox", nodeSelector={"zone": "a"}, tolerations=[narrow]
    )
    spec = created.json["spec"]
    assert spec["nodeSelector"] == {"kind": "vm", "zone": "a"}
    own = [each for each in spec["tolerations"] if each["key"] == "sandbox"]
    assert own == [toleration]


async def test_pods_of_a_class_leave_the_specs_of_other_pods_alone() -> None:
    server = await server_with(scheduling={"nodeSelector": {"kind": "vm"}})
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        body["spec"]["runtimeClassName"] = "sandbox"  # type: ignore[index]
        assert (await server.post(PODS, body)).json["spec"]["nodeSelector"] == {"kind": "vm"}
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    await server.ask("PATCH", f"{CLASSES}/sandbox", patch, content_type="application/merge-patch+json")
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert "nodeSelector" not in (await server.post(PODS, plain)).json["spec"]


TOLERATION = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={
        "key": st.sampled_from(["a", "b"]),
        "value": st.sampled_from(["x", "y"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
    },
)


def tolerates(toleration: Manifest, key: str, value: str, effect: str) -> bool:
    if toleration.get("effect", effect) != effect:
        return False
    if toleration["operator"] == "Exists":
        return bool(toleration.get("key", key) == key)
    return bool(toleration.get("key") == key and toleration.get("value", "") == value)


@given(st.lists(TOLERATION, max_size=6))
def test_merging_tolerations_changes_nothing_that_is_tolerated(tolerations: list[Manifest]) -> None:
    merged = merged_tolerations(tolerations)
    assert len(merged) <= len(tolerations)
    taints = [(k, v, e) for k in "abc" for v in ("x", "y", "") for e in ("NoSchedule", "NoExecute")]
    for taint in taints:
        before = any(tolerates(each, *taint) for each in tolerations)
        assert any(tolerates(each, *taint) for each in merged) == before

"""Requests that once failed with an internal error, or took long: each gets the answer of a real server."""

import json
import time
from typing import Any

import pytest

from tests.apiserver.registries import config_map, pod
from tests.apiserver.servers import TestServer
from volcano.kube.api import protobuf, type_info

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
DIGITS = "9" * 6000


@pytest.fixture
async def server() -> TestServer:
    server = await TestServer(disabled_plugins=()).start()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.made("/api/v1/namespaces/default/serviceaccounts", account)
    await server.made(MAPS, config_map("x", a="b"))
    await server.made(PODS, pod("x"))
    return server


@pytest.mark.parametrize(
    "query",
    [
        f"resourceVersion={DIGITS}",
        f"watch=true&resourceVersion={DIGITS}",
        f"resourceVersion={DIGITS}&resourceVersionMatch=Exact",
        f"limit={DIGITS}",
        f"timeoutSeconds={DIGITS}",
        "resourceVersion=-1",
        "resourceVersion=%D9%A1",
        "continue=bnVsbA",
    ],
)
async def test_numbers_that_are_too_long_are_client_errors(server: TestServer, query: str) -> None:
    answered = await server.get(f"{MAPS}?{query}")
    assert 400 <= answered.code < 500, answered.body


async def test_a_resource_version_of_thousands_of_digits_in_an_object_is_a_conflict(
    server: TestServer,
) -> None:
    body = {**config_map("x"), "metadata": {"name": "x", "resourceVersion": DIGITS}}
    assert (await server.ask("PUT", f"{MAPS}/x", body)).code == 409
    options = {"preconditions": {"resourceVersion": DIGITS}}
    assert (await server.ask("DELETE", f"{MAPS}/x", options)).code == 409


@pytest.mark.parametrize("depth", [129, 250, 1000, 100_000])
@pytest.mark.parametrize(
    ("method", "target", "content_type"),
    [
        ("POST", MAPS, "application/json"),
        ("PUT", f"{MAPS}/x", "application/json"),
        ("PATCH", f"{MAPS}/x", MERGE),
        ("PATCH", f"{MAPS}/x", STRATEGIC),
        ("PATCH", f"{MAPS}/x", JSON_PATCH),
        ("PATCH", f"{MAPS}/x?fieldManager=m", APPLY),
        ("DELETE", f"{MAPS}/x", "application/json"),
    ],
)
async def test_deeply_nested_json_is_rejected(
    server: TestServer, method: str, target: str, content_type: str, depth: int
) -> None:
    inner = b"[" * depth + b"]" * depth
    body = (
        b'[{"op":"add","path":"/x","value":%b}]' % inner
        if content_type == JSON_PATCH
        else b'{"x":%b}' % inner
    )
    answered = await server.ask(method, target, body, content_type=content_type)
    assert answered.code == 400, answered.body


async def test_json_patches_cannot_nest_deeper_step_by_step(server: TestServer) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.toys.example"},
        "spec": {
            "group": "toys.example",
            "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    await server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    kites = "/apis/toys.example/v1/namespaces/default/kites"
    await server.made(kites, {"apiVersion": "toys.example/v1", "kind": "Kite", "metadata": {"name": "k"}})
    value: Any = {}
    for _ in range(99):
        value = {"a": value}
    first = await server.ask(
        "PATCH", f"{kites}/k", [{"op": "add", "path": "/s", "value": value}], content_type=JSON_PATCH
    )
    assert first.code == 200
    second = await server.ask(
        "PATCH",
        f"{kites}/k",
        [{"op": "add", "path": "/s" + "/a" * 99, "value": value}],
        content_type=JSON_PATCH,
    )
    assert (second.code, "max depth" in second.message) == (400, True)


@pytest.mark.parametrize("kept", [[["a"]], [{"a": 1}], [None], "a", 5, {"a": "b"}])
async def test_retain_keys_must_be_a_list_of_names(server: TestServer, kept: Any) -> None:
    patch = {"spec": {"$retainKeys": kept, "containers": []}}
    answered = await server.ask("PATCH", f"{PODS}/x", patch, content_type=STRATEGIC)
    assert (answered.code, "retainKeys" in answered.message) == (400, True)


@pytest.mark.parametrize(
    "spec", [{"containers": [{"name": "c", "resources": {}}]}, {}, None, 5, "x", {"containers": 5}]
)
async def test_an_apply_patch_to_the_resize_of_a_pod_is_applied_or_rejected(
    server: TestServer, spec: Any
) -> None:
    patch = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    answered = await server.ask(
        "PATCH", f"{PODS}/x/resize?fieldManager=m&force=true", patch, content_type=APPLY
    )
    assert answered.code in (200, 400, 409, 422), answered.body


async def test_an_unnamed_container_under_a_quota_is_invalid(server: TestServer) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}},
    }
    await server.made("/api/v1/namespaces/default/resourcequotas", quota)
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"image": "i"}]},
    }
    answered = await server.post(PODS, body)
    assert answered.code == 422
    assert "spec.containers[0].name: Required value" in answered.message


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"user": "u", "groups": 5}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"user": "u", "extra": ["a"]}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"user": "u", "resourceAttributes": "x"}),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": ["x"]}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"token": "x", "audiences": 5}),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", "x"),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", {"audiences": {"a": 1}}),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", {"boundObjectRef": [1]}),
    ],
)
async def test_fields_of_the_wrong_type_in_reviews_and_tokens_are_named(
    server: TestServer, target: str, spec: Any
) -> None:
    answered = await server.post(target, {"spec": spec})
    assert answered.code == 400
    assert "cannot unmarshal" in answered.message


async def test_delete_options_of_the_wrong_type_are_named(server: TestServer) -> None:
    answered = await server.ask("DELETE", f"{MAPS}/x", {"preconditions": [1]})
    assert (answered.code, "cannot unmarshal array" in answered.message) == (400, True)


async def test_a_json_patch_has_at_most_ten_thousand_operations(server: TestServer) -> None:
    operation = {"op": "test", "path": "/metadata/name", "value": "x"}
    answered = await server.ask("PATCH", f"{MAPS}/x", [operation] * 10_001, content_type=JSON_PATCH)
    assert (answered.code, answered.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_copies_of_copies_are_limited(server: TestServer) -> None:
    operations = [{"op": "copy", "from": "/data", "path": f"/data/b{i}"} for i in range(60)]
    started = time.monotonic()
    answered = await server.ask("PATCH", f"{MAPS}/x", operations, content_type=JSON_PATCH)
    assert (answered.code, "bytes at most" in answered.message) == (422, True)
    assert time.monotonic() - started < 10  # would never end


async def test_nested_protobuf_is_rejected(server: TestServer) -> None:
    schema: Any = {"type": "object"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b.c"},
           "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {}}}]}}  # fmt: skip
    type_ = type_info.type_named("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert type_ is not None
    body = _nested_protobuf()
    answered = await server.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        protobuf.encode(type_, crd)[:4] + body,
        content_type="application/vnd.kubernetes.protobuf",
    )
    assert answered.code == 400


def _nested_protobuf() -> bytes:
    """A message in a message, thousands of times."""
    inner = b""
    for _ in range(3000):
        inner = b"\x12" + _varint(len(inner)) + inner
    return b"\x0a\x00" + b"\x12" + _varint(len(inner)) + inner


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


async def test_many_small_patches_do_not_add_up_to_an_object_of_any_size(server: TestServer) -> None:
    codes = []
    for patch in range(4):
        labels = {f"k{patch}-{i}": "v" for i in range(40_000)}
        body = json.dumps({"metadata": {"annotations": labels}}).encode()
        codes.append((await server.ask("PATCH", f"{MAPS}/x", body, content_type=MERGE)).code)
    assert codes[-1] in (413, 422)


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
async def test_a_patch_cannot_remove_the_type_of_an_object(server: TestServer, field: str) -> None:
    await server.ask("PATCH", f"{MAPS}/x", {field: None}, content_type=MERGE)
    assert (await server.get(f"{MAPS}/x")).json[field] in ("v1", "ConfigMap")


async def test_the_claims_of_a_pods_own_resources_are_a_list(server: TestServer) -> None:
    body = pod("claims")
    body["spec"]["resources"] = {"claims": [{"name": "a"}], "limits": {"cpu": "1000m"}}
    answered = await server.post(PODS, body)
    assert answered.code in (201, 422), answered.body

"""Nothing a client can send makes the server fail: no 500, no traceback."""

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, pod
from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from volcano.kube import kinds, protobuf, type_info
from volcano.kube.kinds import BUILT_IN, VIRTUAL, Kind
from volcano.kube.manifest import Manifest
from volcano.local import components
from volcano.local.admission import admission_options, mutating_plugin, validating_plugin
from volcano.net.messages import Response, Stream

pytestmark = pytest.mark.slow

METADATA: Manifest = {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e.com/f"]}
TEMPLATE: Manifest = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
SELECTOR: Manifest = {"matchLabels": {"a": "b"}}
SPECS: dict[str, Manifest] = {
    "Pod": {
        "spec": {**pod()["spec"], "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "priority": 1}
    },
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
    "Secret": {"data": {"a": "Yg=="}, "type": "Opaque"},
    "Service": {"spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}}},
    "Node": {
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1"}},
    },
    "Deployment": {"spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}},
    "Job": {"spec": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["n"]}]},
    "ClusterRole": {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
    "RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
    },
    "ResourceQuota": {"spec": {"hard": {"pods": "5", "requests.cpu": "1"}}},
    "PriorityClass": {"value": 5, "preemptionPolicy": "Never"},
    "Lease": {"spec": {"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "Event": {
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"},
        "reason": "r",
        "message": "m",
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "CustomResourceDefinition": {
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
                    "additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".spec.c"}],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "properties": {"c": {"type": "string"}}}
                            },
                        }
                    },
                }
            ],
        },
    },
    "SubjectAccessReview": {"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "SelfSubjectRulesReview": {"spec": {"namespace": "default"}},
    "TokenReview": {"spec": {"token": "t", "audiences": ["a"]}},
}
TASK: Manifest = {
    "name": "worker",
    "replicas": 2,
    "minAvailable": 1,
    "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
    "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}},
}
OUR_SPECS: dict[Kind, Manifest] = {
    kinds.JOB: {
        "spec": {
            "minAvailable": 1,
            "schedulerName": "volcano",
            "queue": "default",
            "plugins": {"svc": [], "ssh": ["--no-root"]},
            "policies": [{"events": ["TaskCompleted"], "action": "CompleteJob", "timeout": "10s"}],
            "tasks": [TASK],
        }
    },
    kinds.CRON_JOB: {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"tasks": [TASK]}}}},
    kinds.QUEUE: {
        "spec": {
            "weight": 1,
            "parent": "root",
            "capability": {"cpu": "4"},
            "guarantee": {"resource": {"cpu": "1"}},
        }
    },
    kinds.POD_GROUP: {"spec": {"minMember": 2, "queue": "default", "minResources": {"cpu": "1"}}},
    kinds.COMMAND: {
        "action": "AbortJob",
        "target": {"apiVersion": "v1", "kind": "Job", "name": "x", "uid": "u"},
    },
    kinds.JOB_FLOW: {"spec": {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}},
    kinds.JOB_TEMPLATE: {"spec": {"tasks": [TASK]}},
    kinds.HYPER_NODE: {
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]}
    },
}
KINDS = [*BUILT_IN, *VIRTUAL]
LIVING: list[tuple[Kind, Manifest]] = [
    *((kind, SPECS[kind.kind]) for kind in BUILT_IN if kind.kind in SPECS),
    *OUR_SPECS.items(),
]
SEGMENTS = st.sampled_from(
    ["x", "default", "kube-system", "pods", "namespaces", "status", "scale", "log", "watch", "..", "%00"]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["1Gi", "-1", "2026-01-01T00:00:00Z", "a/b", "", "default", "v1"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=6), children, max_size=3),
    max_leaves=6,
)  # fmt: skip
PARAMETERS = st.dictionaries(
    st.sampled_from(
        [
            "limit", "continue", "watch", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch",
            "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "fieldManager", "fieldValidation", "dryRun",
            "force", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty", "includeObject",
            "container", "tailLines", "sinceTime", "command",
        ]
    ),
    st.text(max_size=10)
    | st.sampled_from(["true", "0", "1", "-1", "All", "Strict", "NotOlderThan", "Exact", "a=b", "metadata.name=x",
                       "spec.nodeName!=n", "a in (b,c)", "!a", "Foreground", "Table", "9999999999999999999999"]),
    max_size=4,
)  # fmt: skip
CONTENT_TYPES = st.sampled_from(
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "",
     "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
     "application/apply-patch+yaml", "application/cbor", ";;;"]
)  # fmt: skip
ACCEPTS = st.sampled_from(
    ["", "*/*", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml", "text/html", ",;=",
     "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]
)  # fmt: skip
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, str]:
    """A path that is served or nearly so, and its kind."""
    if draw(st.integers(0, 9)) == 0:
        parts = draw(st.lists(SEGMENTS | st.text(max_size=6), max_size=6))
        return "/" + "/".join(quote(part, safe="%.") for part in parts), ""
    kind = draw(st.sampled_from(KINDS))
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced and draw(st.integers(0, 5)):
        base += "/namespaces/default"
    path = f"{base}/{kind.plural}"
    if draw(st.booleans()):
        path += "/x"
        if draw(st.integers(0, 2)) == 0:
            path += "/" + draw(st.sampled_from([*kind.subresources, "status", "nothing"]))
    return path, kind.kind


def _mutated(draw: st.DrawFn, manifest: Manifest) -> Any:
    """A manifest with a few values replaced, removed or added anywhere in it."""
    manifest = copy.deepcopy(manifest)
    for _ in range(draw(st.integers(0, 3))):
        spots = list(_spots(manifest))
        if not spots:
            break
        parent, key = draw(st.sampled_from(spots))
        match draw(st.integers(0, 3)):
            case 0 if isinstance(parent, dict):
                parent.pop(key, None)
            case 1 if isinstance(parent, dict):
                parent[draw(st.text(max_size=6))] = draw(JSON_VALUES)
            case _:
                parent[key] = draw(JSON_VALUES)
    return manifest


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _spots(child)


@st.composite
def bodies(draw: st.DrawFn, kind: str) -> bytes:
    match draw(st.integers(0, 9)):
        case 0:
            return draw(st.binary(max_size=30))
        case 1:
            return b"k8s\x00" + draw(st.binary(max_size=40))
        case 2:
            return _encoded(draw(JSON_VALUES))
        case 3:
            operations = st.fixed_dictionaries(
                {"op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy", "x"])},
                optional={
                    "path": st.sampled_from(["/spec", "/metadata/name", "/data/a", "", "/x/0", "/-", "y"]),
                    "value": JSON_VALUES,
                    "from": st.just("/metadata"),
                },
            )
            return _encoded(draw(st.lists(operations, max_size=3)))
        case _:
            known = next((k for k in KINDS if k.kind == kind), KINDS[0])
            valid: Manifest = {"apiVersion": known.api_version, "kind": known.kind, "metadata": METADATA}
            changed = _mutated(draw, {**valid, **SPECS.get(known.kind, {"spec": {}})})
            if draw(st.integers(0, 4)) == 0:
                return yaml.safe_dump(changed).encode()
            return _encoded(changed)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes, dict[str, str]]:
    path, kind = draw(paths())
    query = "&".join(f"{name}={quote(value)}" for name, value in draw(PARAMETERS).items())
    headers = {"content_type": draw(CONTENT_TYPES), "accept": draw(ACCEPTS)}
    if draw(st.integers(0, 9)) == 0:
        headers["impersonate_user"] = draw(st.text(max_size=8))
    method = draw(METHODS)
    if method == "PATCH" and draw(st.booleans()):
        query += "&fieldManager=fuzz"
    return method, f"{path}?{query}", draw(bodies(kind)), headers


class Failures(logging.Handler):
    """Collects the errors that the server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


@pytest.fixture
def failures() -> Iterator[Failures]:
    handler = Failures()
    logging.getLogger("volcano").addHandler(handler)
    yield handler
    logging.getLogger("volcano").removeHandler(handler)


async def _send(server: TestServer, method: str, target: str, body: bytes, headers: dict[str, Any]) -> int:
    response = await server.send(method, target, body, token=ADMIN_TOKEN, **headers)
    if isinstance(response, Stream):
        reading = asyncio.ensure_future(anext(response.chunks, b""))
        await asyncio.wait({reading}, timeout=0.01)
        if not reading.done():
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await response.chunks.aclose()  # type: ignore[attr-defined]
        return response.status
    assert isinstance(response, Response)
    if (
        response.status >= 400
        and response.headers.get("Content-Type") == "application/json"
        and method != "HEAD"
    ):
        found = json.loads(response.body)
        assert found.get("kind") == "Status" or "paths" in found
    return response.status


async def _prepared() -> TestServer:
    """A server with our own kinds and the admission of a whole cluster."""
    batch = admission_options()
    server = TestServer(
        mutating=mutating_plugin(batch), validating=validating_plugin(batch), disabled_plugins=()
    )
    await server.start()
    for _, manifest in [*components.crds(), *components.priority_classes()]:
        kind = next(kind for kind in BUILT_IN if kind.kind == manifest["kind"])
        await server.made(f"/apis/{kind.group}/v1/{kind.plural}", manifest)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.made("/api/v1/namespaces/default/serviceaccounts", account)
    for name in ("root", "default"):
        queue = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {},
        }
        await server.made(f"/apis/{kinds.QUEUE.api_version}/queues", queue)
    await server.made("/api/v1/namespaces/default/configmaps", config_map("x", a="b"))
    await server.made("/api/v1/namespaces/default/pods", pod("x"))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x"},
        **SPECS["Deployment"],
    }
    await server.made("/apis/apps/v1/namespaces/default/deployments", deployment)
    return server


def test_no_request_makes_the_server_fail(failures: Failures) -> None:
    with asyncio.Runner() as runner:
        servers = [runner.run(_prepared())]
        count = 0

        @settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
        @given(requests())
        def fuzz(request: tuple[str, str, bytes, dict[str, str]]) -> None:
            nonlocal count
            count += 1
            if (
                count % 500 == 0
            ):  # a fresh server from time to time, because stored objects change the outcome
                servers[0] = runner.run(_prepared())
            failures.seen.clear()
            code = runner.run(_send(servers[0], *request))
            assert code not in (500, 502, 503), f"{request} returned {code}: {failures.seen}"
            assert failures.seen == []

        fuzz()


@st.composite
def object_requests(draw: st.DrawFn) -> list[tuple[str, str, bytes, dict[str, str]]]:
    """Requests that create, replace, patch, read and delete one object, with a few errors in them."""
    kind, spec = draw(st.sampled_from(LIVING))
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    valid = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": METADATA, **spec}
    name = valid["metadata"]["name"]
    strict = draw(st.sampled_from(["", "?fieldValidation=Strict", "?dryRun=All"]))
    sub = draw(st.sampled_from(["", "", *(f"/{name}" for name in kind.subresources)]))
    created = _mutated(draw, valid)
    encoded, content_type = _encoded(created), "application/json"
    if draw(st.integers(0, 3)) == 0:
        encoded, content_type = yaml.safe_dump(created).encode(), "application/yaml"
    json_type = {"content_type": "application/json"}
    table = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    patches = [
        ("application/merge-patch+json", _encoded(_mutated(draw, spec))),
        ("application/strategic-merge-patch+json", _encoded(_mutated(draw, spec))),
        ("application/apply-patch+yaml", _encoded(_mutated(draw, valid))),
        ("application/json-patch+json", draw(bodies_of_json_patches())),
    ]
    patch_type, patch = draw(st.sampled_from(patches))
    manager = "?fieldManager=fuzz&force=true" if patch_type.endswith("yaml") else ""
    return [
        ("POST", collection + strict, encoded, {"content_type": content_type}),
        ("PUT", f"{collection}/{name}{sub}", _encoded(_mutated(draw, valid)), json_type),
        ("PATCH", f"{collection}/{name}{sub}{manager}", patch, {"content_type": patch_type}),
        ("GET", collection, b"", table),
        ("DELETE", f"{collection}/{name}?gracePeriodSeconds=0", b"", {}),
        (
            "PATCH",
            f"{collection}/{name}",
            b'{"metadata":{"finalizers":null}}',
            {"content_type": patches[0][0]},
        ),
    ]


@st.composite
def bodies_of_json_patches(draw: st.DrawFn) -> bytes:
    paths = st.sampled_from(
        [
            "/spec",
            "/metadata/name",
            "/metadata/labels/a",
            "/data/a",
            "",
            "/spec/template",
            "/status",
            "/-",
            "y",
        ]
    )
    operation = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]), "path": paths},
        optional={"value": JSON_VALUES, "from": paths},
    )
    return _encoded(draw(st.lists(operation, min_size=1, max_size=3)))


def test_no_object_with_something_wrong_makes_the_server_fail(failures: Failures) -> None:
    codes: set[int] = set()
    with asyncio.Runner() as runner:
        server = runner.run(_prepared())

        @settings(max_examples=2500, deadline=None, suppress_health_check=list(HealthCheck))
        @given(object_requests())
        def fuzz(life: list[tuple[str, str, bytes, dict[str, str]]]) -> None:
            for request in life:
                failures.seen.clear()
                code = runner.run(_send(server, *request))
                codes.add(code)
                assert code not in (500, 502, 503), f"{request} returned {code}: {failures.seen}"
                assert failures.seen == []

        fuzz()
    assert {200, 201, 400, 404, 422} <= codes, "the fuzzing must reach all the way down"


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_no_protobuf_of_a_known_kind_breaks_the_decoder(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([k for k in KINDS if k.kind in SPECS]))
    type_ = type_info.type_named(kind.api_version, kind.kind)
    if type_ is None:
        return
    valid = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": METADATA, **SPECS[kind.kind]}
    raw = bytearray(protobuf.encode(type_, valid))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = protobuf.decode(bytes(raw))
    except ValueError:
        return
    assert isinstance(decoded, dict)

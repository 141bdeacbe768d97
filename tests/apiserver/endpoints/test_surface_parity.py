"""Our server and a real API server return the same columns, discovery documents and errors."""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.registries import config_map, pod
from tests.apiserver.servers import TestServer
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube.api import kinds
from volcano.kube.api.kinds import BUILT_IN, Kind

pytestmark = pytest.mark.k8s

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SSAR = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Both:
    """Sends the same request to both servers."""

    def __init__(self, real: RealCluster, runner: asyncio.Runner) -> None:
        self._real = real
        self._runner = runner
        self._ours = runner.run(TestServer().start())

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[Any, Any]:
        """Responses of both: (code, decoded body) of ours and of the real one."""
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if raw:
            lines.setdefault("content-type", "application/json")
        ours = self._runner.run(
            self._ours.ask(method, target, raw, **{k.replace("-", "_"): v for k, v in lines.items()})
        )
        return (ours.code, _decoded(ours.body)), self._ask_real(method, target, raw, lines)

    def _ask_real(self, method: str, target: str, raw: bytes, lines: dict[str, str]) -> tuple[int, Any]:
        lines = {**lines, "authorization": f"Bearer {self._real.token}"}
        request = urllib.request.Request(self._real.url + target, raw or None, lines, method=method)
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=context, timeout=20) as response:
                return response.status, _decoded(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@pytest.fixture(scope="module")
def both(real_apiserver: RealCluster) -> Iterator[Both]:
    with asyncio.Runner() as runner:
        both = Both(real_apiserver, runner)
        both.ask("POST", MAPS, config_map("here", a="b"))
        yield both


def collection(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}/{kind.plural}" if kind.group else f"/api/v1/{kind.plural}"


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.resource)
def test_tables_have_the_same_columns(both: Both, kind: Kind) -> None:
    (_, ours), (_, real) = both.ask("GET", collection(kind), accept=TABLE)

    def columns(table: Any) -> list[Any]:
        return [(c["name"], c["type"], c["format"], c["priority"]) for c in table["columnDefinitions"]]

    assert columns(ours) == columns(real)


@pytest.mark.parametrize("group_version", sorted({kind.api_version for kind in BUILT_IN}))
def test_discovery_describes_kinds_the_same_way(both: Both, group_version: str) -> None:
    path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    (_, ours), (_, real) = both.ask("GET", path)
    known = {entry["name"]: entry for entry in real["resources"]}
    for entry in ours["resources"]:
        expected = known[entry["name"]]
        expected.pop("storageVersionHash", None)
        assert {**entry, "verbs": sorted(entry["verbs"])} == {**expected, "verbs": sorted(expected["verbs"])}


STATUS_FIELDS = ("code", "reason", "message")
REJECTED_REQUESTS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", f"{MAPS}/none", None, {}),
    ("DELETE", f"{MAPS}/none", None, {}),
    ("PUT", f"{MAPS}/here", config_map("other"), {}),
    ("PUT", f"{MAPS}/none", config_map("none"), {}),
    ("POST", MAPS, config_map("here"), {}),
    ("POST", MAPS, config_map("x", namespace="kube-system"), {}),
    ("POST", MAPS, config_map("Not_A_Name"), {}),
    ("POST", "/api/v1/namespaces/nowhere/configmaps", config_map("x", namespace="nowhere"), {}),
    ("POST", f"{PODS}?fieldValidation=Strict", {**pod("x"), "spec": {**pod()["spec"], "foo": 1}}, {}),
    ("POST", f"{MAPS}?fieldValidation=Loose", config_map("x"), {}),
    ("POST", f"{MAPS}?dryRun=Some", config_map("x"), {}),
    ("PATCH", f"{MAPS}/here", b"{}", {"content_type": "application/apply-patch+yaml"}),
    ("PATCH", f"{MAPS}/here?force=true", {}, {"content_type": "application/merge-patch+json"}),
    ("PATCH", f"{MAPS}/none", {}, {"content_type": "application/merge-patch+json"}),
    ("DELETE", f"{MAPS}/here?propagationPolicy=Sideways", None, {}),
    ("GET", f"{MAPS}?fieldSelector=data.x%3D1", None, {}),
    ("GET", f"{MAPS}?limit=ten", None, {}),
    ("GET", f"{MAPS}?resourceVersionMatch=Exact", None, {}),
    ("GET", f"{PODS}/none/log", None, {}),
    ("GET", MAPS, None, {"impersonate_user": "joe"}),
    ("GET", "/metrics", None, {"impersonate_user": "joe"}),
    ("DELETE", "/api/v1/nodes", None, {"impersonate_user": "joe"}),
    ("POST", SSAR, {"spec": {}}, {}),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/none/token", {}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "target", "body", "headers"), REJECTED_REQUESTS)
def test_error_messages_are_the_same(
    both: Both, method: str, target: str, body: Any, headers: dict[str, str]
) -> None:
    (_, ours), (_, real) = both.ask(method, target, body, **headers)
    assert {name: ours.get(name) for name in STATUS_FIELDS} == {
        name: real.get(name) for name in STATUS_FIELDS
    }


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PATCH", f"{MAPS}/here", {"content_type": "application/json"}),
        ("GET", f"{MAPS}?labelSelector=a%20in", {}),
        ("GET", f"{MAPS}?continue=nonsense", {}),
        ("DELETE", "/api/v1/namespaces", {}),
        ("GET", "/api/v1/unicorns", {}),
        ("GET", "/apis/none/v1/pods", {}),
        ("GET", "/api/v1/pods/web", {}),
        ("GET", f"{MAPS}/here/scale", {}),
        ("PUT", MAPS, {}),
        ("POST", "/api/v1/configmaps", {}),
        ("POST", f"{MAPS}/here", {}),
        ("GET", MAPS, {"accept": "text/html"}),
        ("GET", "/nowhere", {}),
        ("GET", "/openapi/v9", {}),
        ("POST", MAPS, {"content_type": "application/x-unknown"}),
        ("GET", "/healthz/nothing", {}),
    ],
)
def test_unserved_paths_have_the_same_code(
    both: Both, method: str, target: str, headers: dict[str, str]
) -> None:
    body = config_map("x") if method in ("POST", "PUT", "PATCH") else None
    (ours, _), (real, _) = both.ask(method, target, body, **headers)
    assert ours == real


CONTAINER = {"name": "main", "image": "i", "imageID": "", "restartCount": 0, "ready": False}
LIFE: dict[str, Any] = {
    "creating": {
        "phase": "Pending",
        "containerStatuses": [{**CONTAINER, "state": {"waiting": {"reason": "ContainerCreating"}}}],
    },
    "running": {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.7"}],
        "podIP": "10.0.0.7",
        "containerStatuses": [{**CONTAINER, "ready": True, "state": {"running": {}}}],
    },
    "crashing": {
        "phase": "Running",
        "containerStatuses": [{**CONTAINER, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    },
    "done": {
        "phase": "Succeeded",
        "containerStatuses": [{**CONTAINER, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
    },
    "killed": {
        "phase": "Failed",
        "containerStatuses": [{**CONTAINER, "state": {"terminated": {"exitCode": 137, "signal": 9}}}],
    },
    "evicted": {"phase": "Failed", "reason": "Evicted"},
}  # fmt: skip


@pytest.mark.parametrize("moment", LIFE)
def test_pods_are_shown_alike_all_their_life(both: Both, moment: str) -> None:
    both.ask("POST", PODS, pod(moment, nodeName="n1", automountServiceAccountToken=False))
    (code, _), _ = both.ask(
        "PATCH",
        f"{PODS}/{moment}/status",
        {"status": LIFE[moment]},
        content_type="application/merge-patch+json",
    )
    assert code == 200
    (_, ours), (_, real) = both.ask("GET", f"{PODS}/{moment}", accept=TABLE)
    (our_row,), (real_row,) = ours["rows"], real["rows"]
    age = [column["name"] for column in real["columnDefinitions"]].index("Age")
    our_row["cells"][age] = real_row["cells"][age] = "now"
    assert our_row["cells"] == real_row["cells"]
    assert our_row.get("conditions") == real_row.get("conditions")


ROLES = (
    "cluster-admin",
    "admin",
    "edit",
    "view",
    "system:discovery",
    "system:basic-user",
    "system:public-info-viewer",
)


@pytest.mark.parametrize("role", ROLES)
def test_default_roles_have_the_same_labels(both: Both, role: str) -> None:
    (_, ours), (_, real) = both.ask("GET", f"/apis/{kinds.CLUSTER_ROLE.api_version}/clusterroles/{role}")
    assert ours["metadata"]["labels"] == real["metadata"]["labels"]
    assert ours.get("aggregationRule") == real.get("aggregationRule")

"""Names of objects: those that a real API server accepts, of every built-in kind."""

import copy
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.apiserver import conformance
from tests.apiserver.servers import TestServer
from tests.conftest import started
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.k8s

NAMES = ("Upper.1", "dotted.name", "9digit", "under_score", "a:b", "x" * 60)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    yield from started(tmp_path_factory)


def target_of(kind: Kind) -> str:
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace = "/namespaces/default" if kind.namespaced else ""
    return f"{prefix}{namespace}/{kind.plural}?dryRun=All"


def ask(cluster: RealCluster, target: str, manifest: Manifest) -> Manifest:
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    data = json.dumps(manifest).encode()
    request = urllib.request.Request(cluster.url + target, data, headers, method="POST")
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            found: Manifest = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found


def name_causes(answer: Manifest) -> list[str]:
    """What an answer says about the name."""
    causes = (answer.get("details") or {}).get("causes") or []
    return [cause["message"] for cause in causes if cause.get("field") == "metadata.name"]


async def test_names_are_accepted_as_by_a_real_server(real: RealCluster) -> None:
    server = await TestServer().start()
    differences = {}
    for given in conformance.minimal_manifests():
        kind = conformance.kind_of(given)
        if kind.kind.endswith("Review"):
            continue
        for name in NAMES:
            manifest = copy.deepcopy(given)
            manifest["metadata"] = {**manifest.get("metadata", {}), "name": name}
            manifest["metadata"].pop("generateName", None)
            theirs = name_causes(ask(real, target_of(kind), manifest))
            ours = name_causes((await server.post(target_of(kind), manifest)).json)
            if ours != theirs:
                differences[kind.kind, kind.group, name] = (ours, theirs)
    assert differences == {}, "\n".join(f"{k} {v}" for k, v in differences.items())

"""Objects garbled at random get the response of a real server: the same causes for custom resources, and the same
fields and reasons, with few exceptions, for built-in kinds."""

import copy
import time
from random import Random

import pytest

from tests.apiserver import conformance
from tests.apiserver.registry.test_strategy_fuzz import garbled, samples
from tests.k8s.control_plane.cluster import RealCluster
from tests.manifests.test_manifests import TABLE
from volcano.kube.api import crds
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

HYPER_NODE = {
    "apiVersion": "topology.volcano.sh/v1alpha1",
    "kind": "HyperNode",
    "metadata": {"name": "rack"},
    "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]},
}
ROUNDS = 300
READY_WITHIN = 30.0


def _path(kind: Kind) -> str:
    where = "/namespaces/default" if kind.namespaced else ""
    return f"/apis/{kind.api_version}{where}/{kind.plural}"


def _cases(seed: int) -> list[tuple[Kind, Manifest]]:
    random, cases = Random(seed), []
    originals = [each for each in samples() if "volcano.sh" in each["apiVersion"]]
    for _ in range(ROUNDS):
        original = copy.deepcopy(random.choice([*originals, HYPER_NODE]))
        kind, _ = TABLE[original["apiVersion"], original["kind"]]
        if kind.namespaced:
            original["metadata"]["namespace"] = "default"
        changed = garbled(original, random)
        if changed["metadata"] == original["metadata"]:  # names and namespaces belong to the URL
            cases.append((kind, changed))
    return cases


def _ours(manifest: Manifest) -> tuple[int, set[tuple[str, str, str]]]:
    _, strategy = TABLE[manifest["apiVersion"], manifest["kind"]]
    manifest = copy.deepcopy(manifest)
    try:
        strategy.prune(manifest)
        manifest["metadata"]["uid"] = conformance.UID
        strategy.default(manifest)
        strategy.prepare_for_create(manifest, conformance.NOW)
        causes = strategy.validate(manifest, None, "")
    except ApiError as error:
        return error.code, set()
    return (422 if causes else 201), {(cause.field, cause.reason, cause.message) for cause in causes}


@pytest.fixture(scope="module")
def server(real_apiserver: RealCluster) -> conformance.RealServer:
    """A real server that serves our kinds."""
    real = conformance.RealServer(real_apiserver.url, real_apiserver.token)
    for crd in crds.load():
        real.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    deadline = time.monotonic() + READY_WITHIN
    while any(real.call("GET", _path(kind)).get("kind") == "Status" for kind, _ in _cases(1)[:20]):
        assert time.monotonic() < deadline, "our CRDs are not established"
        time.sleep(0.2)
    return real


@pytest.mark.k8s
@pytest.mark.parametrize("seed", [1, 2])
def test_a_garbled_object_gets_the_response_of_a_real_server(
    server: conformance.RealServer, seed: int
) -> None:
    for kind, manifest in _cases(seed):
        response = server.call("POST", f"{_path(kind)}?dryRun=All&fieldValidation=Ignore", manifest)
        causes = {
            (each.get("field", ""), each["reason"], each["message"])
            for each in (response.get("details") or {}).get("causes") or ()
        }
        code = response["code"] if response.get("kind") == "Status" else 201
        assert _ours(manifest) == (code, causes), manifest


@pytest.mark.k8s
def test_garbled_objects_of_built_in_kinds_are_nearly_always_treated_alike(
    real_apiserver: RealCluster,
) -> None:
    real, random = conformance.RealServer(real_apiserver.url, real_apiserver.token), Random(1)
    alike, different = 0, []
    for _ in range(1_000):
        original = copy.deepcopy(random.choice(conformance.minimal_manifests()))
        if conformance.kind_of(original).namespaced:
            original["metadata"]["namespace"] = "default"
        original["metadata"]["name"] = original["metadata"]["name"].replace("default", "other")
        manifest = garbled(original, random)
        response = (
            real.create(manifest, dry_run=True) if manifest["metadata"] == original["metadata"] else None
        )
        if response is None or response.get("code") in (403, 409):
            continue  # rejected before validation: another URL, admission, or an existing object
        theirs = {(cause.field, cause.reason) for cause in conformance.causes_of(response)}
        if {(field, reason) for field, reason, _ in _ours(manifest)[1]} == theirs:
            alike += 1
        else:
            different.append(manifest)
    assert alike > 300
    assert len(different) < 0.03 * alike, different

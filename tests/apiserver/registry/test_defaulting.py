"""Manifests that say little are filled in as a real server fills them in."""

import json
from typing import Any

import pytest

from tests.apiserver import conformance
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.registry.pod_defaulting import canonical, is_latest
from volcano.apiserver.registry.strategies import strategy_for
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import BUILT_IN, POD
from volcano.kube.api.manifest import Manifest

# What admission or another part adds, or what only a real server has; each is covered elsewhere or is a line in
# docs/parity/crds.md.
BY_OTHERS = {
    "Pod": ["spec.priority", "spec.preemptionPolicy", "spec.tolerations"],
    "Service": ["spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy", "spec.ports"],
    "PersistentVolume": ["metadata.finalizers", "status.lastPhaseTransitionTime"],
    "PersistentVolumeClaim": ["metadata.finalizers"],
    "CustomResourceDefinition": ["status"],
    "CSINode": ["spec.drivers"],
    "CertificateSigningRequest": ["spec.username", "spec.uid", "spec.groups"],
}


def _without(manifest: Manifest, paths: list[str]) -> Manifest:
    result: Manifest = json.loads(json.dumps(manifest))
    for path in paths:
        holder: Any = result
        *way, last = path.split(".")
        for step in way:
            holder = holder.get(step, {})
        holder.pop(last, None)
    result["metadata"].pop("uid", None)
    return result


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param(given, stored, id=f"{given['kind']} {given['metadata']['name']}")
        for given, stored in zip(
            conformance.minimal_manifests(), json.loads(conformance.DEFAULTED.read_text()), strict=True
        )
    ],
)
def test_an_object_is_stored_as_a_real_server_stores_it(given: Manifest, stored: Manifest) -> None:
    ours = conformance.prepared(given)
    others = BY_OTHERS.get(given["kind"], [])
    assert _without(ours, others) == _without(stored, others)
    assert strategy_for(conformance.kind_of(given)).validate(ours, None, "") == []


def test_there_is_a_sample_of_every_built_in_kind() -> None:
    assert {conformance.kind_of(given) for given in conformance.minimal_manifests()} == set(BUILT_IN)


@pytest.mark.parametrize("given", conformance.minimal_manifests(), ids=lambda given: f"{given['kind']}")
def test_filling_in_twice_changes_nothing_more(given: Manifest) -> None:
    once = conformance.prepared(given)
    twice = json.loads(json.dumps(once))
    strategy_for(conformance.kind_of(given)).default(twice)
    assert twice == once


@pytest.mark.k8s
def test_the_recorded_objects_are_those_of_a_real_server(real_apiserver: RealCluster) -> None:
    server = conformance.RealServer(real_apiserver.url, real_apiserver.token)
    recorded = json.loads(conformance.DEFAULTED.read_text())
    for given, stored in zip(conformance.minimal_manifests(), recorded, strict=True):
        answer = conformance.stable(server.create(given))
        others = BY_OTHERS.get(given["kind"], [])
        assert _without(answer, others) == _without(stored, others)


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("busybox", True),
        ("busybox:latest", True),
        ("busybox:1.36", False),
        ("host.example:5000/busybox", True),
        ("busybox@sha256:abc", False),
    ],
)
def test_images_without_a_tag_are_always_pulled(image: str, latest: bool) -> None:
    assert is_latest(image) is latest


def test_quantities_are_stored_in_their_shortest_form() -> None:
    assert [canonical(value) for value in ("1024Mi", 4, "1000m", "0.5")] == ["1Gi", "4", "1", "500m"]


def test_a_field_of_the_wrong_type_is_a_bad_request_that_names_it() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "none"}}
    with pytest.raises(BadRequest, match=r"Pod in version \"v1\" cannot be handled as a Pod: .*containers"):
        strategy_for(POD).prune(pod)


def test_unknown_fields_are_named_and_dropped() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"foo": 1, "containers": None},
    }
    strategy = strategy_for(POD)
    assert strategy.unknown_fields(pod) == ['unknown field "spec.foo"']
    strategy.prune(pod)
    assert pod["spec"] == {}

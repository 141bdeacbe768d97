"""The type information covers every built-in kind, and decoding errors are those of a real server."""

import copy
import time
from typing import Any

import pytest

from volcano.kube.api import type_info
from volcano.kube.api.kinds import BUILT_IN, CRD, DEPLOYMENT, JOB, NODE, POD, SECRET, VIRTUAL, Kind


@pytest.mark.parametrize("kind", BUILT_IN + VIRTUAL, ids=str)
def test_every_built_in_kind_has_a_type_whose_parts_are_all_known(kind: Kind) -> None:
    type_ = type_info.type_of(kind)
    assert type_ is not None
    seen, waiting = set(), [type_]
    while waiting:
        current = waiting.pop()
        seen.add(current.name)
        assert len(current.by_number) == len({about.number for about in current.by_number.values()})
        for about in current.fields.values():
            if about.is_object and about.type not in seen:
                waiting.append(type_info.named(about.type))
    assert "meta.v1.ObjectMeta" in seen


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Binding"),
        ("v1", "DeleteOptions"),
        ("apps/v1", "DeleteOptions"),
        ("v1", "Status"),
        ("policy/v1", "Eviction"),
        ("autoscaling/v1", "Scale"),
        ("authentication.k8s.io/v1", "TokenRequest"),
    ],
)
def test_what_is_posted_but_not_stored_has_facts_too(api_version: str, kind: str) -> None:
    assert type_info.type_named(api_version, kind) is not None


def test_kinds_that_crds_define_have_none() -> None:
    assert type_info.type_of(JOB) is None


def test_merge_keys_and_list_types() -> None:
    pod = type_info.named("core.v1.PodSpec")
    assert pod.fields["containers"].keys == ("name",)
    assert pod.fields["volumes"].strategies == ("merge", "retainKeys")
    assert pod.fields["tolerations"].list_type == "atomic"
    assert pod.fields["nodeSelector"].atomic
    ports = type_info.named("core.v1.Container").fields["ports"]
    assert (ports.merge_key, ports.keys) == ("containerPort", ("containerPort", "protocol"))
    assert type_info.named("core.v1.ContainerPort").fields["protocol"].default == "TCP"
    assert type_info.named("core.v1.Volume").fields["configMap"].type == "core.v1.ConfigMapVolumeSource"


def test_loading_all_facts_is_quick() -> None:
    type_info._data.cache_clear()
    type_info.named.cache_clear()
    type_info.type_named.cache_clear()
    started = time.process_time()
    for kind in BUILT_IN + VIRTUAL:
        type_info.type_of(kind)
    assert time.process_time() - started < 2.0  # about 4 ms on a quiet machine


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


INTO = "json: cannot unmarshal {} into Go struct field {} of type {}"
WRONG_TYPES: list[Any] = [
    (POD, pod(containers="x"), INTO.format("string", "PodSpec.spec.containers", "[]v1.Container")),
    (POD, pod(containers=["x"]), INTO.format("string", "PodSpec.spec.containers", "v1.Container")),
    (POD, pod(containers=[{"image": 5}]), INTO.format("number", "Container.spec.containers.image", "string")),
    (POD, {"metadata": {"labels": {"a": 1}}}, INTO.format("number", "ObjectMeta.metadata.labels", "string")),
    (
        POD,
        {"metadata": {"labels": ["a"]}},
        INTO.format("array", "ObjectMeta.metadata.labels", "map[string]string"),
    ),
    (POD, {"spec": []}, INTO.format("array", "Pod.spec", "v1.PodSpec")),
    (POD, pod(priority=1.5), INTO.format("number 1.5", "PodSpec.spec.priority", "int32")),
    (POD, pod(priority="1"), INTO.format("string", "PodSpec.spec.priority", "int32")),
    (POD, pod(priority=99999999999), INTO.format("number 99999999999", "PodSpec.spec.priority", "int32")),
    (POD, pod(restartPolicy=1), INTO.format("number", "PodSpec.spec.restartPolicy", "v1.RestartPolicy")),
    (POD, pod(hostNetwork="true"), INTO.format("string", "PodSpec.spec.hostNetwork", "bool")),
    (POD, pod(hostNetwork=1), INTO.format("number", "PodSpec.spec.hostNetwork", "bool")),
    (
        POD,
        pod(containers=[{"resources": {"limits": ["x"]}}]),
        INTO.format("array", "ResourceRequirements.spec.containers.resources.limits", "v1.ResourceList"),
    ),
    (
        POD,
        pod(containers=[{"resources": {"limits": {"cpu": "abc"}}}]),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        POD,
        pod(containers=[{"resources": {"limits": {"cpu": True}}}]),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        POD,
        {"metadata": {"creationTimestamp": "yesterday"}},
        'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
    ),
    (
        POD,
        {"metadata": {"creationTimestamp": 5}},
        INTO.format("number", "ObjectMeta.metadata.creationTimestamp", "string"),
    ),
    (
        POD,
        pod(containers=[{"livenessProbe": {"httpGet": {"port": True}}}]),
        INTO.format("bool", "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port", "int32"),
    ),
    (SECRET, {"data": {"a": "!!!"}}, "illegal base64 data at input byte 0"),
    (SECRET, {"data": {"a": 1}}, INTO.format("number", "Secret.data", "[]uint8")),
    (
        DEPLOYMENT,
        {"spec": {"replicas": "three"}},
        INTO.format("string", "DeploymentSpec.spec.replicas", "int32"),
    ),
    (
        DEPLOYMENT,
        {"spec": {"template": {"spec": {"volumes": [{"configMap": "x"}]}}}},
        INTO.format(
            "string", "Volume.spec.template.spec.volumes.VolumeSource.configMap", "v1.ConfigMapVolumeSource"
        ),
    ),
    (
        CRD,
        {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": 5}}}]}},
        "boolean or JSON schema expected",
    ),
]


@pytest.mark.parametrize(("kind", "manifest", "text"), WRONG_TYPES)
def test_wrong_types_are_reported_as_a_real_server_does(kind: Kind, manifest: Any, text: str) -> None:
    type_ = type_info.type_of(kind)
    assert type_ is not None
    assert type_info.type_errors(type_, manifest)[:1] == [text]


def test_unknown_fields_are_named_by_path_in_document_order() -> None:
    type_ = type_info.type_of(POD)
    assert type_ is not None
    manifest = pod(containers=[{"foo": 1, "livenessProbe": {"bar": {}}, "name": "c"}], zap=1) | {"top": []}
    assert type_info.unknown_fields(type_, manifest) == [
        'unknown field "spec.containers[0].foo"',
        'unknown field "spec.containers[0].livenessProbe.bar"',
        'unknown field "spec.zap"',
        'unknown field "top"',
    ]
    type_info.prune(type_, manifest)
    assert manifest == pod(containers=[{"livenessProbe": {}, "name": "c"}])


def test_a_right_manifest_has_nothing_to_complain_about() -> None:
    type_ = type_info.type_of(NODE)
    assert type_ is not None
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": None, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": 4, "memory": "1Gi"}, "images": [{"names": ["a"], "sizeBytes": 2**40}]},
    }
    before = copy.deepcopy(manifest)
    assert type_info.inspect(type_, manifest) == type_info.Inspection([], [])
    type_info.prune(type_, manifest)
    assert manifest == before


def test_schemas_inside_crds_are_pruned_at_any_depth() -> None:
    type_ = type_info.type_of(CRD)
    assert type_ is not None
    schema = {"properties": {"a": {"type": "array", "items": {"type": "string", "foo": 1}}}}
    manifest: Any = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    type_info.prune(type_, manifest)
    assert schema == {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}

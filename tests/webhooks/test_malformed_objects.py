"""Admission of malformed objects: absent and null fields are accepted, wrong types are denied with a reason."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webhooks.reviews import Objects, job, queue, task
from volcano.base.http import messages
from volcano.kube.api.kinds import (
    CRON_JOB,
    HYPER_NODE,
    JOB,
    JOB_FLOW,
    NODE_RESERVATION,
    POD,
    POD_GROUP,
    QUEUE,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest
from volcano.webhooks.rules import SERVICES, AdmissionService, mutate, validate
from volcano.webhooks.webhook import Webhook

CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {}}}
RICH_TASK = task(
    "worker",
    4,
    minAvailable=2,
    topologyPolicy="restricted",
    policies=[{"events": ["PodFailed"], "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
    partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "networkTopology": {"mode": "hard"}},
    dependsOn={"name": ["ps"]},
    template={"spec": {"hostNetwork": True, "initContainers": [CONTAINER], "containers": [CONTAINER]}},
)
SHARES: Any = {"capability": {"cpu": "4"}, "deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "1"}}}
HIERARCHY = {"volcano.sh/hierarchy": "root/q", "volcano.sh/hierarchy-weights": "1/2"}
NOTES = {"volcano.sh/jdb-min-available": "1", "scheduling.volcano.sh/queue-allocation-gate": "true"}
MANIFESTS: dict[Kind, Manifest] = {
    JOB: job(
        RICH_TASK,
        task("ps"),
        plugins={"mpi": ["--master=ps"], "svc": []},
        policies=[{"event": "PodEvicted", "action": "RestartJob"}],
        volumes=[{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": {}}],
        networkTopology={"mode": "hard", "highestTierAllowed": 1},
        minAvailable=2,
        queue="default",
    ),
    POD: {
        "metadata": {"name": "p", "namespace": "d", "annotations": NOTES},
        "spec": {"schedulerName": "volcano", "containers": [CONTAINER], "schedulingGates": [{"name": "g"}]},
    },
    POD_GROUP: {
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"queue": "default", "subGroupPolicy": [{"networkTopology": {"highestTierAllowed": 1}}]},
    },
    QUEUE: queue("q", parent="dept", annotations=HIERARCHY, **SHARES),
    JOB_FLOW: {
        "metadata": {"name": "f", "namespace": "d"},
        "spec": {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]},
    },
    HYPER_NODE: {
        "metadata": {"name": "h"},
        "spec": {"members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "n.*"}}}]},
    },
    NODE_RESERVATION: {
        "metadata": {"name": "r"},
        "spec": {
            "nodes": {"names": ["n"], "selector": {"matchLabels": {"a": "b"}}, "count": 1},
            "queue": "default",
            "startTime": "2026-01-01T00:00:00Z",
            "endTime": "2026-01-02T00:00:00Z",
        },
    },
    CRON_JOB: {
        "metadata": {"name": "c", "namespace": "d"},
        "spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {}}},
    },
}
OBJECTS = {QUEUE: [queue("root"), queue("default"), queue("dept", **SHARES)]}
GROUPS = ({"object": {"key": "annotation", "value": ["a: b"]}, "labels": {"x": "y"}},)
SETTINGS = AdmissionOptions(resource_groups=lambda: GROUPS, gate_queue_admission=True)
ODD = st.one_of(
    st.sampled_from(["", "x", "²", "-1", 0, -1, 10**12, 1.5, True, [], {}, [None], {"a": None}, ["a"], [[]]]),
    st.text(max_size=4),
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a manifest."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, inner in items for place in ((*here, name), *paths(inner, (*here, name)))]


PLACES = {kind: paths(manifest) for kind, manifest in MANIFESTS.items()}


def changed(manifest: Manifest, place: tuple[Any, ...], value: Any) -> Manifest:
    """A manifest with another value at a place; `...` takes the place away."""
    made = copy.deepcopy(manifest)
    inner: Any = made
    for name in place[:-1]:
        try:
            inner = inner[name]
        except (LookupError, TypeError):
            return made  # an earlier change took it away
    if isinstance(inner, dict | list):
        if value is not ...:
            try:
                inner[place[-1]] = value
            except (IndexError, TypeError):
                return made
        elif isinstance(inner, dict):
            inner.pop(place[-1], None)
    return made


@st.composite
def mutated(draw: st.DrawFn, kind: Kind, values: st.SearchStrategy[Any]) -> Manifest:
    manifest = MANIFESTS[kind]
    for _ in range(draw(st.integers(1, 3))):
        manifest = changed(manifest, draw(st.sampled_from(PLACES[kind])), draw(values))
    return manifest


kinds = st.sampled_from([*MANIFESTS])


def request(kind: Kind, new: Manifest, operation: str) -> AdmissionRequest:
    old = MANIFESTS[kind] if operation == "UPDATE" else None
    return AdmissionRequest(operation, kind, Key("d", "n"), new, old, Objects(OBJECTS), SETTINGS)


@pytest.mark.parametrize("kind", MANIFESTS, ids=lambda kind: kind.kind)
def test_every_part_may_be_absent_or_null(kind: Kind) -> None:
    apply_validator = 0
    for place in PLACES[kind]:
        for value in (..., None):
            manifest = changed(MANIFESTS[kind], place, value)
            for service in SERVICES:
                if service.kind == kind:
                    apply_validator += _evaluate(service, manifest)
    assert apply_validator >= len(PLACES[kind])


def _evaluate(service: AdmissionService, manifest: Manifest) -> int:
    """Asks the rules themselves: nothing of theirs may fail. Counts what was asked."""
    asked = 0
    for operation in service.operations:
        if operation == "DELETE":
            continue
        about = request(service.kind, manifest, operation)
        if service.mutator:
            assert isinstance(service.mutator(about), dict)
        else:
            assert service.validators is not None
            assert all(violation.message for violation in service.validators[operation](about))
        asked += 1
    return asked


@settings(max_examples=150, deadline=None)
@given(st.data(), kinds, st.sampled_from(["CREATE", "UPDATE"]))
def test_wrong_types_anywhere_end_in_an_answer(data: st.DataObject, kind: Kind, operation: str) -> None:
    new = data.draw(mutated(kind, ODD))
    before = copy.deepcopy(new)
    about = request(kind, new, operation)
    assert isinstance(mutate(about), dict)
    assert all(violation.message for violation in validate(about))
    assert new == before, "rules must leave what they judge as it is"


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(SERVICES), ODD | st.none())
async def test_the_webhook_answers_whatever_it_is_sent(
    data: st.DataObject, service: AdmissionService, odd: Any
) -> None:
    webhook = Webhook(Objects(OBJECTS), SETTINGS)
    asked: Any = {
        "uid": "u",
        "operation": data.draw(st.sampled_from(service.operations)),
        "namespace": "d",
        "resource": {
            "group": service.kind.group,
            "version": service.kind.version,
            "resource": service.kind.plural,
        },
        "object": data.draw(mutated(service.kind, ODD)),
        "oldObject": MANIFESTS[service.kind],
    }
    asked = changed(asked, data.draw(st.sampled_from([("x",), *((name,) for name in asked)])), odd)
    body = orjson.dumps({"request": asked})
    answer = await webhook(messages.Request("POST", service.path, body=body))
    assert isinstance(answer, messages.Response)
    response = orjson.loads(answer.body)["response"]
    assert answer.status == 200
    assert response["allowed"] or response["status"]["message"]
    assert response.get("status", {}).get("code") != 500, "a rule failed: " + str(response)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | st.recursive(ODD | st.none(), st.lists, max_leaves=5).map(orjson.dumps))
async def test_the_webhook_refuses_what_is_no_review(body: bytes) -> None:
    answer = await Webhook(Objects(OBJECTS), SETTINGS)(messages.Request("POST", "/jobs/validate", body=body))
    assert isinstance(answer, messages.Response)
    assert orjson.loads(answer.body)["response"]["allowed"] is False

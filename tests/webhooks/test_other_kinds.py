"""PodGroups, pods, JobFlows, HyperNodes and CronJobs: completed, and refused where they cannot work."""

from typing import Any

import pytest

from tests.webhooks.reviews import found, queue, review
from volcano.kube.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.numbers import check_time_annotations
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate


def group(**spec: Any) -> Manifest:
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}


def test_a_pod_group_goes_to_its_namespaces_queue() -> None:
    namespace = {"metadata": {"name": "ns", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}}
    made = mutate(review(POD_GROUP, group(queue="default"), objects={NAMESPACE: [namespace]}))
    assert made is not None
    assert made["spec"]["queue"] == "team"
    kept = mutate(review(POD_GROUP, group(queue="mine"), objects={NAMESPACE: [namespace]}))
    assert kept is not None
    assert kept["spec"]["queue"] == "mine"


def test_a_pod_group_needs_an_open_queue() -> None:
    assert "unable to find queue" in found(review(POD_GROUP, group(queue="ghost")))["spec.queue"]
    closed = {QUEUE: [queue("q", state="Closed")]}
    assert "state `Open`" in found(review(POD_GROUP, group(queue="q"), objects=closed))["spec.queue"]


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        pytest.param({"volcano.sh/jdb-min-available": "2"}, False, id="a number"),
        pytest.param({"volcano.sh/jdb-min-available": "50%"}, False, id="a percentage"),
        pytest.param({"volcano.sh/jdb-min-available": "0"}, True, id="zero"),
        pytest.param({"volcano.sh/jdb-max-unavailable": "100%"}, True, id="all of them"),
        pytest.param({"volcano.sh/jdb-max-unavailable": "few"}, True, id="a word"),
        pytest.param(
            {"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}, True, id="both"
        ),
    ],
)
def test_a_pods_disruption_budget(notes: dict[str, str], wrong: bool) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "d", "annotations": notes},
        "spec": {"schedulerName": "volcano"},
    }
    assert bool(found(review(POD, pod))) is wrong
    foreign = {**pod, "spec": {"schedulerName": "default-scheduler"}}
    assert found(review(POD, foreign)) == {}


def test_a_resource_group_steers_its_pods() -> None:
    rule = {
        "resourceGroup": "gpu",
        "object": {"key": "namespace", "value": ["ml"]},
        "schedulerName": "volcano",
        "labels": {"pool": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    options = AdmissionOptions(resource_groups=lambda: (rule,))
    pod = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"nodeSelector": {"pool": "cpu", "a": "b"}}}
    made = mutate(review(POD, pod, options=options))
    assert made is not None
    assert made["spec"]["nodeSelector"] == {"pool": "gpu", "a": "b"}
    assert made["spec"]["schedulerName"] == "volcano"
    assert mutate(review(POD, {**pod, "metadata": {"name": "p", "namespace": "web"}}, options=options)) == {
        **pod,
        "metadata": {"name": "p", "namespace": "web"},
    }


def step(target: str) -> Manifest:
    return {"name": "a", "dependsOn": {"targets": [target]}}


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        pytest.param(JOB_FLOW, {"flows": [step("x")]}, "spec.flows[0].dependsOn.targets", id="unknown flow"),
        pytest.param(JOB_FLOW, {"flows": [step("a")]}, "spec.flows", id="flow of itself"),
        pytest.param(HYPER_NODE, {"members": []}, "spec.members", id="hypernode without members"),
        pytest.param(
            HYPER_NODE,
            {"members": [{"selector": {"regexMatch": {"pattern": "("}}}]},
            "spec.members[0].selector.regexMatch.pattern",
            id="a pattern that is none",
        ),
        pytest.param(CRON_JOB, {"schedule": "now"}, "spec.schedule", id="a schedule that is none"),
        pytest.param(
            CRON_JOB, {"schedule": "TZ=UTC * * * * *"}, "spec.schedule", id="a zone in the schedule"
        ),
        pytest.param(
            CRON_JOB, {"schedule": "@daily", "timeZone": "Mars/Base"}, "spec.timeZone", id="no such zone"
        ),
    ],
)
def test_other_kinds_are_refused_where_they_cannot_work(kind: Kind, spec: Manifest, field: str) -> None:
    assert field in found(review(kind, {"metadata": {"name": "x", "namespace": "d"}, "spec": spec}))


@pytest.mark.parametrize("kind", [JOB, POD_GROUP])
def test_a_walltime_that_cannot_be_understood_is_refused(kind: Kind) -> None:
    manifest = group(tasks=[])
    manifest["metadata"]["annotations"] = {"volcano.sh/walltime": "soon"}
    problems = [str(problem) for problem in check_time_annotations(manifest)]
    assert problems == [
        "metadata.annotations[volcano.sh/walltime]: 'soon' must be a duration such as 2h, 90m or 1-12:00:00"
    ]
    path = "metadata.annotations[volcano.sh/walltime]"
    if kind is POD_GROUP:
        assert "must be a duration" in found(review(kind, manifest))[path]
    manifest["metadata"]["annotations"] = {"volcano.sh/walltime": "1-12:00:00"}
    assert path not in found(review(kind, manifest))


@pytest.mark.parametrize("text", ["soon", "0s", "-1m"])
def test_a_time_of_a_queue_reservation_that_is_none_is_refused(text: str) -> None:
    manifest = group(tasks=[])
    path = "metadata.annotations[volcano.sh/queue-reservation-timeout]"
    manifest["metadata"]["annotations"] = {"volcano.sh/queue-reservation-timeout": text}
    assert f'invalid duration "{text}"' in found(review(POD_GROUP, manifest))[path]
    manifest["metadata"]["annotations"] = {"volcano.sh/queue-reservation-timeout": "10m"}
    assert path not in found(review(POD_GROUP, manifest))


def test_a_queue_enforces_walltimes_or_does_not() -> None:
    manifest = {"metadata": {"name": "q", "annotations": {"volcano.sh/enforce-walltime": "yes"}}, "spec": {}}
    path = "metadata.annotations[volcano.sh/enforce-walltime]"
    assert 'must be "true" or "false"' in found(review(QUEUE, manifest))[path]

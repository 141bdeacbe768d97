"""Jobs and other objects that could never run are refused, with the field, what was wrong and what would be right."""

from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.webhooks.reviews import found, job, review, task
from volcano.kube.api.errors import Invalid
from volcano.kube.api.kinds import COMMAND, CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, POD_GROUP, Kind
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.rules import mutate

CLAIM: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def of(kind: Kind, name: str, **spec: Any) -> Manifest:
    return {"metadata": {"name": name, **({"namespace": "d"} if kind.namespaced else {})}, "spec": spec}


def claiming(**changes: Any) -> Manifest:
    return job(volumes=[{"mountPath": "/a", "volumeClaim": {**CLAIM, **changes}}])


def requesting(storage: str) -> Manifest:
    return claiming(resources={"requests": {"storage": storage}})


WRONG = [
    pytest.param(
        job(name="a.b", plugins={"svc": []}), "metadata.name", "must not contain dots", id="dots and svc"
    ),
    pytest.param(
        job(task("worker", 1), name="a.b", plugins={"pytorch": []}),
        "metadata.name",
        "must not contain dots: plugin svc",
        id="dots and a plugin that needs svc",
    ),
    pytest.param(
        job(name="a.b", plugins={"ssh": []}), "metadata.name", "must not contain dots: plugin ssh", id="ssh"
    ),
    pytest.param(
        job(task("t", 1), name="a" * 56, plugins={"ray": []}),
        "metadata.name",
        "must be at most 54 characters",
        id="a Service name that is too long",
    ),
    pytest.param(
        job(task("w" * 30, 1001), name="j" * 29, plugins={"svc": []}),
        "spec.tasks[0].name",
        "has 65 characters; at most 63 are allowed",
        id="a host name that is too long",
    ),
    pytest.param(
        claiming(accessModes=["ReadSometimes"]),
        "spec.volumes[0].volumeClaim.accessModes",
        "unknown access mode 'ReadSometimes'; choose from ReadWriteOnce",
        id="access mode",
    ),
    pytest.param(
        claiming(accessModes=[]),
        "spec.volumes[0].volumeClaim.accessModes",
        "at least one access mode is required",
        id="no access mode",
    ),
    pytest.param(
        requesting("-1Gi"),
        "spec.volumes[0].volumeClaim.resources.requests[storage]",
        "above 0 such as 10Gi (it is '-1Gi')",
        id="negative storage",
    ),
    pytest.param(
        claiming(resources={}),
        "spec.volumes[0].volumeClaim.resources.requests[storage]",
        "none is given",
        id="no storage",
    ),
    pytest.param(job(minSuccess=3), "spec.minSuccess", "<= the total replicas in tasks, 2", id="minSuccess"),
    pytest.param(
        job(task("a"), task("b", dependsOn={"name": ["a"], "iteration": "some"})),
        "spec.tasks[1].dependsOn.iteration",
        "unknown iteration 'some'; choose from any, all",
        id="iteration",
    ),
    *(
        pytest.param(
            job(policies=[{"exitCode": code, "action": "AbortJob"}]),
            "spec.policies[0].exitCode",
            "1 to 255",
            id=f"exit code {code}",
        )
        for code in (-1, 0, 256)
    ),
]


@pytest.mark.parametrize(("manifest", "field", "text"), WRONG)
def test_a_job_that_could_never_run_is_refused(manifest: Manifest, field: str, text: str) -> None:
    assert text in found(review(JOB, manifest)).get(field, "")


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(name="a.b"), id="dots without plugins"),
        pytest.param(job(name="1st", plugins={"svc": []}), id="a digit first"),
        pytest.param(
            job(task("w" * 30, 1001), name="j" * 29, plugins={"env": []}),
            id="long names of pods, not of hosts",
        ),
        pytest.param(claiming(), id="a claim"),
        pytest.param(job(minSuccess=2), id="minSuccess of all"),
        pytest.param(job(policies=[{"exitCode": 255, "action": "AbortJob"}]), id="exit code 255"),
    ],
)
def test_a_job_that_can_run_is_accepted(manifest: Manifest) -> None:
    assert found(review(JOB, manifest)) == {}


def test_a_host_name_of_the_templates_own_does_not_grow_with_the_replicas() -> None:
    tasks = task("w" * 30, 1001)
    tasks["template"]["spec"]["hostname"] = "here"
    assert found(review(JOB, job(tasks, name="j" * 29, plugins={"svc": []}))) == {}


def test_scaling_is_refused_where_it_could_not_work() -> None:
    old = mutate(review(JOB, job(task("w" * 30, 10), name="j" * 29, plugins={"svc": []}, minSuccess=5)))
    assert old is not None
    larger = job(task("w" * 30, 1001), name="j" * 29, plugins={"svc": []}, minSuccess=5)
    assert "spec.tasks[0].name" in found(review(JOB, larger, old))
    smaller = job(task("w" * 30, 4), name="j" * 29, plugins={"svc": []}, minSuccess=5)
    assert "spec.minSuccess" in found(review(JOB, smaller, old))


def matching(operator: str) -> Manifest:
    expression = {"key": "rack", "operator": operator, "values": ["a"]}
    member = {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [expression]}}}
    return of(HYPER_NODE, "h", tier=1, members=[member])


CRON = {"schedule": "@daily", "jobTemplate": {"spec": {"tasks": [task("worker", 2)]}}}
OTHERS = [
    pytest.param(HYPER_NODE, matching("Near"), "spec.members[0].selector.labelMatch", id="operator"),
    pytest.param(HYPER_NODE, matching("In"), "", id="a known operator"),
    pytest.param(JOB_FLOW, of(JOB_FLOW, "f", flows=[]), "spec.flows", id="no flows"),
    pytest.param(
        JOB_FLOW, of(JOB_FLOW, "f" * 40, flows=[{"name": "s" * 30}]), "spec.flows[0].name", id="long job"
    ),
    pytest.param(
        POD_GROUP,
        of(POD_GROUP, "g", minResources={"cpu": "-1"}),
        "spec.minResources[cpu]",
        id="less than none",
    ),
    pytest.param(POD_GROUP, of(POD_GROUP, "g", minResources={"cpu": "500m"}), "", id="half a core"),
    pytest.param(
        CRON_JOB,
        of(CRON_JOB, "c" * 50, **CRON),
        "spec.jobTemplate.spec.tasks[0].name",
        id="pods of a CronJob",
    ),
    pytest.param(CRON_JOB, of(CRON_JOB, "c" * 44, **CRON), "", id="pods that are just short enough"),
]


@pytest.mark.parametrize(("kind", "manifest", "field"), OTHERS)
def test_other_objects_that_could_have_no_effect_are_refused(
    kind: Kind, manifest: Manifest, field: str
) -> None:
    assert list(found(review(kind, manifest))) == ([field] if field else [])


@pytest.mark.parametrize(
    ("kind", "action", "accepted"),
    [
        ("Job", "AbortJob", True),
        ("Queue", "OpenQueue", True),
        ("Job", "StopJob", False),
        ("Job", "OpenQueue", False),
    ],
)
async def test_commands_have_an_action_of_their_target(kind: str, action: str, accepted: bool) -> None:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "name": "j", "uid": ""}
    async with SmallCluster() as cluster:
        if accepted:
            await cluster.create(COMMAND, "c", action=action, target=target)
        else:
            with pytest.raises(Invalid, match=r"action: .*must be AbortJob, ResumeJob, RestartJob"):
                await cluster.create(COMMAND, "c", action=action, target=target)

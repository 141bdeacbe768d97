"""Jobs are completed, and refused where they cannot work, naming the field and what would be right."""

import pytest

from tests.webhooks.reviews import found, job, queue, review, task
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import JOB, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate


def test_a_job_is_completed() -> None:
    request = review(JOB, job(task(""), task("ps", 1), plugins={"mpi": ["--master=ps"]}))
    made = mutate(request)
    assert made is not None
    spec = made["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    assert [(t["name"], t["minAvailable"], t["maxRetry"]) for t in spec["tasks"]] == [
        ("default0", 2, 3),
        ("ps", 1, 3),
    ]
    assert spec["plugins"] == {"mpi": ["--master=ps"], "svc": [], "ssh": []}
    assert found(request) == {}


def test_what_the_user_wrote_is_kept() -> None:
    made = mutate(review(JOB, job(task(minAvailable=0), minAvailable=1, maxRetry=7, queue="default")))
    assert made is not None
    assert (made["spec"]["minAvailable"], made["spec"]["maxRetry"]) == (1, 7)
    assert made["spec"]["tasks"][0]["minAvailable"] == 0


def test_an_extended_resource_without_a_limit_gets_one() -> None:
    wanting = task()
    wanting["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"nvidia.com/gpu": "1", "cpu": "4"}
    }
    made = mutate(review(JOB, job(wanting)))
    assert made is not None
    resources = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "1"}


def test_a_partitioned_task_needs_its_partitions() -> None:
    policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    made = mutate(review(JOB, job(task(replicas=8, partitionPolicy=policy))))
    assert made is not None
    assert made["spec"]["tasks"][0]["minAvailable"] == 6


@pytest.mark.parametrize(
    ("manifest", "field", "text"),
    [
        pytest.param(
            {"metadata": {"name": "j"}, "spec": {}}, "spec.tasks", "No task specified", id="no task"
        ),
        pytest.param(
            job(task(minAvailable=5)),
            "spec.tasks[0].minAvailable",
            "greater than 'replicas'",
            id="task minimum",
        ),
        pytest.param(job(minAvailable=9), "spec.minAvailable", "total replicas", id="job minimum"),
        pytest.param(
            job(task(), task()), "spec.tasks[1].name", "duplicated task name worker", id="twin tasks"
        ),
        pytest.param(
            job(plugins={"magic": []}), "spec.plugins[magic]", "unable to find job plugin", id="plugin"
        ),
        pytest.param(
            job(plugins={"mpi": []}), "spec.plugins[mpi]", "mpi master task was not found", id="mpi master"
        ),
        pytest.param(job(queue="nowhere"), "spec.queue", "unable to find job queue", id="no such queue"),
        pytest.param(job(queue="root"), "spec.queue", "root queue", id="root queue"),
        pytest.param(job(name="J" * 70), "metadata.name", "validate failed", id="name"),
        pytest.param(
            job(task(dependsOn={"name": ["ghost"]})),
            "spec.tasks[0].dependsOn",
            "no task 'ghost'",
            id="unknown dependency",
        ),
        pytest.param(
            job(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})),
            "spec.tasks",
            "directed acyclic graph",
            id="cycle",
        ),
        pytest.param(
            job(networkTopology={"highestTierAllowed": 1, "highestTierName": "x"}),
            "spec.networkTopology",
            "simultaneously",
            id="two tiers",
        ),
        pytest.param(
            job(task(replicas=4, partitionPolicy={"totalPartitions": 3, "partitionSize": 2})),
            "spec.tasks[0].partitionPolicy",
            "TotalPartitions*PartitionSize",
            id="partitions",
        ),
        pytest.param(
            job(volumes=[{"mountPath": "/a"}]), "spec.volumes[0]", "VolumeClaim", id="volume of nothing"
        ),
        pytest.param(
            job(
                volumes=[
                    {"mountPath": "/a", "volumeClaimName": "x"},
                    {"mountPath": "/a", "volumeClaimName": "y"},
                ]
            ),
            "spec.volumes[1].mountPath",
            "duplicated",
            id="twin mounts",
        ),
        pytest.param(
            job(task(topologyPolicy="restricted")),
            "spec.tasks[0].template",
            "isn't an integer",
            id="numa wants whole cpus",
        ),
    ],
)
def test_a_wrong_job_is_refused(manifest: Manifest, field: str, text: str) -> None:
    assert text in found(review(JOB, manifest)).get(field, "")


def test_a_limit_is_the_default_of_the_cpu_request_under_a_topology_policy() -> None:
    asking = task(topologyPolicy="restricted")
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    asking["template"]["spec"]["containers"][0]["resources"] = resources
    assert found(review(JOB, job(asking))) == {}


@pytest.mark.parametrize(
    ("policies", "field", "text"),
    [
        pytest.param(
            [{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}], "[0]", "simultaneously", id="both"
        ),
        pytest.param([{"action": "AbortJob"}], "[0]", "either event and exitCode", id="neither"),
        pytest.param(
            [{"event": "Rain", "action": "AbortJob"}], "[0].event", "invalid policy event", id="event"
        ),
        pytest.param(
            [{"event": "PodFailed", "action": "Dance"}], "[0].action", "invalid policy action", id="action"
        ),
        pytest.param(
            [{"exitCode": 3, "action": "Dance"}], "[0].action", "invalid policy action", id="action of a code"
        ),
        pytest.param(
            [{"exitCode": 0, "action": "AbortJob"}], "[0].exitCode", "not a valid error code", id="code 0"
        ),
        pytest.param(
            [{"event": "PodFailed", "action": "AbortJob"}] * 2,
            "[1].event",
            "duplicate event",
            id="event twice",
        ),
        pytest.param(
            [{"exitCode": 3, "action": "AbortJob"}] * 2, "[1].exitCode", "duplicate exitCode", id="code twice"
        ),
        pytest.param(
            [{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}],
            "",
            "no other policy",
            id="any and another",
        ),
        pytest.param(
            [{"event": "PodPending", "action": "AbortJob"}], "[0].timeout", "needs a timeout", id="pending"
        ),
    ],
)
def test_wrong_policies_are_refused(policies: list[Manifest], field: str, text: str) -> None:
    assert text in found(review(JOB, job(policies=policies))).get(f"spec.policies{field}", "")


def test_the_seeds_synonym_for_unknown_is_accepted_and_is_the_same_event() -> None:
    assert found(review(JOB, job(policies=[{"event": "JobUnknown", "action": "RestartJob"}]))) == {}
    twice = [{"event": "JobUnknown", "action": "RestartJob"}, {"event": "Unknown", "action": "AbortJob"}]
    assert "spec.policies[1].event" in found(review(JOB, job(policies=twice)))


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_that_is_not_open_takes_no_job(state: str) -> None:
    objects = {QUEUE: [queue("q", state=state)]}
    assert "state `Open`" in found(review(JOB, job(queue="q"), objects=objects))["spec.queue"]


def test_a_queue_just_created_takes_jobs_before_its_state_is_written() -> None:
    assert found(review(JOB, job(queue="q"), objects={QUEUE: [queue("q", state="")]})) == {}


def test_jobs_go_to_leaves() -> None:
    objects = {QUEUE: [queue("dept"), queue("team", parent="dept")]}
    assert "leaf queue" in found(review(JOB, job(queue="dept"), objects=objects))["spec.queue"]
    assert found(review(JOB, job(queue="team"), objects=objects)) == {}


def test_a_wrong_pod_template_is_refused_with_the_path_inside_the_job() -> None:
    options = AdmissionOptions(
        check_template=lambda template: [Cause("FieldValueRequired", "Required value", "spec.containers")]
    )
    assert found(review(JOB, job(), options=options)) == {
        "spec.tasks[0].template.spec.containers": "Required value"
    }

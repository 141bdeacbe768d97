"""Admission completes our kinds and refuses what cannot work, naming the field and what would be right."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from volcano.admission.review import Request, Settings
from volcano.admission.rules import complaints, complete
from volcano.kube.errors import Cause
from volcano.kube.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.manifest import Key, Manifest, key_of


class Objects:
    """The objects rules may look at."""

    def __init__(self, objects: Mapping[Kind, list[Manifest]] | None = None) -> None:
        self._objects = {QUEUE: [queue("root"), queue("default", parent="root")], **(objects or {})}

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        return next((m for m in self._objects.get(kind, ()) if key_of(m) == key), None)

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        return self._objects.get(kind, [])


def queue(
    name: str, *, state: str = "Open", annotations: dict[str, str] | None = None, **spec: Any
) -> Manifest:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"weight": 1, **spec}, "status": {"state": state}}


def task(name: str = "worker", replicas: int = 2, **fields: Any) -> Manifest:
    container = {"name": "c", "image": "i"}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **fields}


def job(*tasks: Manifest, name: str = "train", **spec: Any) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": list(tasks or (task(),)), **spec},
    }


def review(
    kind: Kind,
    new: Manifest | None,
    old: Manifest | None = None,
    objects: Mapping[Kind, list[Manifest]] | None = None,
    settings: Settings | None = None,
) -> Request:
    operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
    subject = new or old
    assert subject is not None
    return Request(operation, kind, key_of(subject), new, old, Objects(objects), settings or Settings())


def found(request: Request) -> dict[str, str]:
    """Complaints by field, after defaults as the server applies them."""
    completed = complete(request)
    fields = (
        request.operation,
        request.kind,
        request.key,
        completed,
        request.old,
        request.lookup,
        request.settings,
    )
    return {complaint.field: complaint.message for complaint in complaints(Request(*fields))}


def test_a_job_is_completed() -> None:
    request = review(JOB, job(task(""), task("ps", 1), plugins={"mpi": ["--master=ps"]}))
    made = complete(request)
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
    made = complete(review(JOB, job(task(minAvailable=0), minAvailable=1, maxRetry=7, queue="default")))
    assert made is not None
    assert (made["spec"]["minAvailable"], made["spec"]["maxRetry"]) == (1, 7)
    assert made["spec"]["tasks"][0]["minAvailable"] == 0


def test_an_extended_resource_without_a_limit_gets_one() -> None:
    wanting = task()
    wanting["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"nvidia.com/gpu": "1", "cpu": "4"}
    }
    made = complete(review(JOB, job(wanting)))
    assert made is not None
    resources = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "1"}


def test_a_partitioned_task_needs_its_partitions() -> None:
    policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    made = complete(review(JOB, job(task(replicas=8, partitionPolicy=policy))))
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
    settings = Settings(
        check_template=lambda template: [Cause("FieldValueRequired", "Required value", "spec.containers")]
    )
    assert found(review(JOB, job(), settings=settings)) == {
        "spec.tasks[0].template.spec.containers": "Required value"
    }


def changed(path: list[Any], value: Any) -> Manifest:
    manifest = complete(review(JOB, job()))
    assert manifest is not None
    manifest = copy.deepcopy(manifest)
    place = manifest["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return manifest


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        pytest.param(["tasks", 0, "replicas"], 5, "", id="scaling is allowed"),
        pytest.param(["priorityClassName"], "high", "", id="so is another priority"),
        pytest.param(["queue"], "other", "spec", id="another queue is not"),
        pytest.param(["tasks", 0, "name"], "other", "spec", id="nor is another task name"),
        pytest.param(
            ["tasks", 0, "replicas"],
            1,
            "spec.tasks[0].minAvailable",
            id="nor fewer replicas than the minimum",
        ),
        pytest.param(["tasks"], [], "spec.tasks", id="nor fewer tasks"),
    ],
)
def test_what_may_change_of_a_job(path: list[Any], value: Any, refused: str) -> None:
    old = complete(review(JOB, job()))
    complaints_found = found(review(JOB, changed(path, value), old))
    assert (refused in complaints_found) if refused else complaints_found == {}


def test_a_queue_is_completed() -> None:
    notes = {"volcano.sh/hierarchy": "sci/dev", "volcano.sh/hierarchy-weights": "2/8"}
    made = complete(review(QUEUE, {"metadata": {"name": "q", "annotations": notes}, "spec": {}}))
    assert made is not None
    assert made["spec"] == {"reclaimable": True, "weight": 1}
    assert made["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/sci/dev",
        "volcano.sh/hierarchy-weights": "1/2/8",
    }


@pytest.mark.parametrize(
    ("new", "field", "text"),
    [
        pytest.param(
            queue("q", capability={"cpu": "-1"}),
            "spec.capability[cpu]",
            "greater than or equal to 0",
            id="negative",
        ),
        pytest.param(
            queue("q", capability={"cpu": "x"}), "spec.capability[cpu]", "no quantity", id="no quantity"
        ),
        pytest.param(
            queue("q", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}),
            "spec.deserved[cpu]",
            "must be >= guarantee",
            id="guarantee above deserved",
        ),
        pytest.param(
            queue("q", deserved={"cpu": "3"}, capability={"cpu": "2"}),
            "spec.deserved[cpu]",
            "must be <= capability",
            id="deserved above capability",
        ),
        pytest.param(queue("q", parent="q"), "spec.parent", "itself", id="its own parent"),
        pytest.param(queue("q", parent="ghost"), "spec.parent", "does not exist", id="no such parent"),
        pytest.param(
            queue(
                "q", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2/3"}
            ),
            "metadata.annotations[volcano.sh/hierarchy-weights]",
            "same length",
            id="weights of another length",
        ),
        pytest.param(
            queue(
                "q", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/-2"}
            ),
            "metadata.annotations[volcano.sh/hierarchy-weights]",
            "larger than 0",
            id="a negative weight",
        ),
    ],
)
def test_a_wrong_queue_is_refused(new: Manifest, field: str, text: str) -> None:
    assert text in found(review(QUEUE, new)).get(field, "")


def test_a_guarantee_needs_no_deserved_share() -> None:
    new = queue("q", guarantee={"resource": {"cpu": "16", "memory": "64Gi"}}, capability={"cpu": "64"})
    assert found(review(QUEUE, new)) == {}


def test_children_stay_within_their_parent() -> None:
    dept = queue("dept", parent="root", deserved={"cpu": "10"}, capability={"cpu": "20"})
    sibling = queue("a", parent="dept", deserved={"cpu": "7"})
    objects = {QUEUE: [queue("root"), dept, sibling]}
    assert found(review(QUEUE, queue("b", parent="dept", deserved={"cpu": "3"}), objects=objects)) == {}
    refusal = found(review(QUEUE, queue("b", parent="dept", deserved={"cpu": "4"}), objects=objects))
    assert "exceeds parent's" in refusal["spec.deserved"]
    refusal = found(review(QUEUE, queue("b", parent="dept", capability={"cpu": "30"}), objects=objects))
    assert "ancestor's capability" in refusal["spec.capability[cpu]"]
    shrunk = queue("dept", parent="root", deserved={"cpu": "5"}, capability={"cpu": "20"})
    assert "exceeds parent's" in found(review(QUEUE, shrunk, dept, objects))["spec.deserved"]


def test_the_tree_is_only_so_deep_and_has_no_cycles() -> None:
    chain = [queue("q0", parent="root"), *(queue(f"q{n}", parent=f"q{n - 1}") for n in range(1, 5))]
    objects = {QUEUE: [queue("root"), *chain]}
    assert (
        "maximum allowed depth"
        in found(review(QUEUE, queue("deep", parent="q4"), objects=objects))["spec.parent"]
    )
    turned = queue("q0", parent="q2")
    assert "cycle" in found(review(QUEUE, turned, chain[0], objects))["spec.parent"]


def test_a_queue_at_work_cannot_become_a_parent() -> None:
    group = {
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"queue": "busy"},
        "status": {"phase": "Running"},
    }
    objects = {QUEUE: [queue("busy", parent="root")], POD_GROUP: [group]}
    assert (
        "PodGroups g" in found(review(QUEUE, queue("child", parent="busy"), objects=objects))["spec.parent"]
    )


def test_the_root_queues_shares_are_protected() -> None:
    assert "spec.capability" in found(review(QUEUE, queue("root", capability={"cpu": "1"}), queue("root")))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("default", "can not be deleted", id="the default queue"),
        pytest.param("root", "can not be deleted", id="the root queue"),
        pytest.param("dept", "1 child queues: team", id="a queue with children"),
        pytest.param("team", "", id="a leaf may go"),
    ],
)
def test_which_queues_may_be_deleted(name: str, text: str) -> None:
    objects = {QUEUE: [queue("root"), queue("default"), queue("dept"), queue("team", parent="dept")]}
    complaints_found = found(review(QUEUE, None, queue(name), objects))
    assert text in complaints_found[""] if text else complaints_found == {}


def group(**spec: Any) -> Manifest:
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}


def test_a_pod_group_goes_to_its_namespaces_queue() -> None:
    namespace = {"metadata": {"name": "ns", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}}
    made = complete(review(POD_GROUP, group(queue="default"), objects={NAMESPACE: [namespace]}))
    assert made is not None
    assert made["spec"]["queue"] == "team"
    kept = complete(review(POD_GROUP, group(queue="mine"), objects={NAMESPACE: [namespace]}))
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
    settings = Settings(resource_groups=lambda: (rule,))
    pod = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"nodeSelector": {"pool": "cpu", "a": "b"}}}
    made = complete(review(POD, pod, settings=settings))
    assert made is not None
    assert made["spec"]["nodeSelector"] == {"pool": "gpu", "a": "b"}
    assert made["spec"]["schedulerName"] == "volcano"
    assert complete(
        review(POD, {**pod, "metadata": {"name": "p", "namespace": "web"}}, settings=settings)
    ) == {
        **pod,
        "metadata": {"name": "p", "namespace": "web"},
    }


def step(target: str) -> Manifest:
    return {"name": "a", "dependsOn": {"targets": [target]}}


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        pytest.param(
            JOB_FLOW, {"flows": [step("x")]}, "spec.flows[0].dependsOn.targets", id="flow of nobody"
        ),
        pytest.param(JOB_FLOW, {"flows": [step("a")]}, "spec.flows", id="flow of itself"),
        pytest.param(HYPER_NODE, {"members": []}, "spec.members", id="hypernode of nobody"),
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

"""Defaults and validation of every kind, rule by rule, as documented for Volcano."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from tests.webhooks.reviews import found, job, queue, review, task
from volcano.controllers.job.plugins.mpi import Mpi
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.plugins.pytorch import Pytorch
from volcano.controllers.job.plugins.ray import Ray
from volcano.controllers.job.plugins.ssh import Ssh
from volcano.controllers.job.plugins.svc import Svc
from volcano.controllers.job.plugins.tensorflow import Tensorflow
from volcano.kube.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.job.plugins import NUMBERS, SWITCHES
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate


def stored(kind: Kind, manifest: Manifest, objects: Mapping[Kind, list[Manifest]] | None = None) -> Manifest:
    made = mutate(review(kind, manifest, objects=objects))
    assert made is not None
    return made


def partitioned(**policy: int) -> Manifest:
    return task(replicas=policy["totalPartitions"] * policy["partitionSize"], partitionPolicy=policy)


def test_a_job_gets_queue_scheduler_retries_and_the_sum_of_task_minima() -> None:
    spec = stored(JOB, job(task("a", 2), task("b", 3, minAvailable=1)))["spec"]
    given = (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"])
    assert given == ("default", "volcano", 3, 3)


def test_an_unnamed_task_is_named_by_its_place() -> None:
    assert stored(JOB, job(task("")))["spec"]["tasks"][0]["name"] == "default0"


@pytest.mark.parametrize(
    ("given", "stands"),
    [
        pytest.param({"tensorflow": []}, {"tensorflow": [], "svc": []}, id="tensorflow"),
        pytest.param({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": []}, id="pytorch"),
        pytest.param({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}, id="mpi"),
        pytest.param({"ray": []}, {"ray": [], "svc": []}, id="ray"),
        pytest.param(
            {"mpi": [], "svc": ["--x"]}, {"mpi": [], "svc": ["--x"], "ssh": []}, id="arguments stay"
        ),
        pytest.param({"env": []}, {"env": []}, id="nothing to add"),
    ],
)
def test_plugins_bring_those_they_need(given: Manifest, stands: Manifest) -> None:
    assert stored(JOB, job(plugins=given))["spec"]["plugins"] == stands


@pytest.mark.parametrize(
    ("policy", "minimum"),
    [
        pytest.param({"totalPartitions": 3, "partitionSize": 3, "minPartitions": 2}, 6, id="2 of 3x3"),
        pytest.param({"totalPartitions": 2, "partitionSize": 2}, 4, id="no minimum"),
    ],
)
def test_partitions_decide_a_tasks_minimum(policy: dict[str, int], minimum: int) -> None:
    assert stored(JOB, job(partitioned(**policy)))["spec"]["tasks"][0]["minAvailable"] == minimum


def policy(event: str, action: str = "AbortJob") -> Manifest:
    return {"event": event, "action": action}


def volume(path: str, **claim: Any) -> Manifest:
    return {"mountPath": path, **claim}


CHILDREN = {QUEUE: [queue("root"), queue("default"), queue("dept"), queue("team", parent="dept")]}
INVALID_JOBS = [
    pytest.param(job(task(), task()), "duplicated task name", id="two tasks of one name"),
    pytest.param(job(policies=[policy("PodFailed")] * 2), "duplicate event", id="an event twice"),
    pytest.param(job(minAvailable=3), "total replicas", id="minimum above replicas"),
    pytest.param(
        job(policies=[{**policy("PodFailed"), "exitCode": 1}]), "simultaneously", id="event and exit code"
    ),
    pytest.param(job(policies=[{"action": "AbortJob"}]), "either event and exitCode", id="neither"),
    pytest.param(
        job(policies=[{"exitCode": 0, "action": "AbortJob"}]), "not a valid error code", id="exit code 0"
    ),
    pytest.param(
        job(policies=[{"exitCode": 1, "action": "AbortJob"}] * 2), "duplicate exitCode", id="code twice"
    ),
    pytest.param(job(policies=[policy("*"), policy("PodFailed")]), "no other policy", id="any and another"),
    pytest.param(
        job(volumes=[volume("/a", volumeClaimName="x"), volume("/a", volumeClaimName="y")]),
        "duplicated mountPath",
        id="one path twice",
    ),
    pytest.param(job(volumes=[volume("/a")]), "VolumeClaim or VolumeClaimName", id="no claim"),
    pytest.param(job(volumes=[volume("", volumeClaimName="x")]), "mountPath is required", id="no path"),
    pytest.param(job(queue="ghost"), "unable to find job queue", id="unknown queue"),
    pytest.param(job(queue="root"), "root queue", id="root"),
    pytest.param(job(queue="dept"), "leaf queue", id="a queue with children"),
    pytest.param(
        job(task("t1", dependsOn={"name": ["t2"]}), task("t2", dependsOn={"name": ["t1"]})),
        "directed acyclic graph",
        id="each on the other",
    ),
    pytest.param(job(task("w"), plugins={"mpi": ["--master=launcher"]}), "mpi master", id="no launcher"),
]


@pytest.mark.parametrize(("manifest", "text"), INVALID_JOBS)
def test_jobs_that_are_refused(manifest: Manifest, text: str) -> None:
    violations = found(review(JOB, manifest, objects=CHILDREN))
    assert any(text in message for message in violations.values()), violations


def privileged() -> Manifest:
    made = task()
    made["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return made


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(queue="team"), id="a leaf"),
        pytest.param(job(privileged()), id="a privileged container"),
        pytest.param(job(task("t1", dependsOn={"name": ["t2"]}), task("t2")), id="one on the other"),
        pytest.param(
            job(task("launcher"), plugins={"mpi": ["--master=launcher"]}), id="a launcher, no worker"
        ),
        pytest.param(job(task("launcher"), plugins={"mpi": ["-master", "launcher"]}), id="in two words"),
    ],
)
def test_jobs_that_are_accepted(manifest: Manifest) -> None:
    assert found(review(JOB, manifest, objects=CHILDREN)) == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"minAvailable": 4, "tasks": [task("a", 4, minAvailable=4)]}, "", id="scaled"),
        pytest.param({"tasks": [task("a", 2), task("b")]}, "spec.tasks", id="one more task"),
        pytest.param({"tasks": [task("a", 2, maxRetry=9)]}, "spec", id="another field of a task"),
        pytest.param({"queue": "team"}, "spec", id="another queue"),
    ],
)
def test_sizes_may_change_and_nothing_else(change: Manifest, field: str) -> None:
    old = job(task("a", 2, minAvailable=2), minAvailable=2, queue="default")
    new = copy.deepcopy(old)
    new["spec"] |= change
    assert [*found(review(JOB, new, old))] == ([field] if field else [])


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"guarantee": {"resource": {"cpu": "1"}}}, "", id="guarantee alone is valid here"),
        pytest.param(
            {"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}},
            "deserved[cpu]=2 must be <= capability[cpu]=1",
            id="deserved over capability",
        ),
        pytest.param(
            {"deserved": {"memory": "1Gi"}, "guarantee": {"resource": {"memory": "3Gi"}}},
            "must be >= guarantee[memory]",
            id="deserved under guarantee",
        ),
        pytest.param({"capability": {"nvidia.com/gpu": "1500m"}}, "must be an integer", id="half a device"),
    ],
)
def test_shares_of_a_queue(spec: Manifest, text: str) -> None:
    violations = found(review(QUEUE, queue("q", **spec)))
    assert any(text in message for message in violations.values()) if text else violations == {}


@pytest.mark.parametrize("weights", ["1/2", "1/2/-1", "1/2/x", "1/2/nan"])
def test_weights_that_do_not_fit_the_hierarchy_are_refused(weights: str) -> None:
    notes = {"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": weights}
    assert [*found(review(QUEUE, queue("q", annotations=notes)))] == [
        "metadata.annotations[volcano.sh/hierarchy-weights]"
    ]


@pytest.mark.parametrize(
    ("name", "kept"), [("default", True), ("root", True), ("dept", True), ("team", False), ("free", False)]
)
def test_which_queues_may_be_deleted(name: str, kept: bool) -> None:
    objects = {QUEUE: [*CHILDREN[QUEUE], queue("free")]}
    assert bool(found(review(QUEUE, None, queue(name), objects))) is kept


def test_a_childs_capability_stays_within_its_ancestors() -> None:
    objects = {QUEUE: [queue("root"), queue("dept", capability={"cpu": "10"}), queue("mid", parent="dept")]}
    new = queue("team", parent="mid", capability={"cpu": "20"})
    assert (
        "exceeds its ancestor's capability=10"
        in found(review(QUEUE, new, objects=objects))["spec.capability[cpu]"]
    )


@pytest.mark.parametrize(
    ("notes", "accepted"),
    [
        *((({"volcano.sh/jdb-min-available": text}), False) for text in ("-1", "0", "0%", "100%", "x", "²")),
        *((({"volcano.sh/jdb-min-available": text}), True) for text in ("50%", "2")),
        ({"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}, False),
    ],
)
def test_the_disruption_budget_of_a_pod(notes: dict[str, str], accepted: bool) -> None:
    metadata = {"name": "p", "namespace": "d", "annotations": notes}
    ours = {"metadata": metadata, "spec": {"schedulerName": "volcano"}}
    theirs = {"metadata": metadata, "spec": {"schedulerName": "default-scheduler"}}
    assert (found(review(POD, ours)) == {}) is accepted
    assert found(review(POD, theirs)) == {}


def test_a_pod_group_in_the_default_queue_goes_to_its_namespaces() -> None:
    namespace = {"metadata": {"name": "ml", "annotations": {"scheduling.volcano.sh/queue-name": "q1"}}}
    for given, stands in (("default", "q1"), ("other", "other")):
        group = {"metadata": {"name": "g", "namespace": "ml"}, "spec": {"queue": given}}
        assert stored(POD_GROUP, group, {NAMESPACE: [namespace]})["spec"]["queue"] == stands


def test_a_pod_group_needs_an_open_queue_or_none_of_its_own() -> None:
    objects = {QUEUE: [queue("root"), queue("default"), queue("shut", state="Closed")]}
    group: Manifest = {"metadata": {"name": "g", "namespace": "d"}, "spec": {"queue": "shut"}}
    assert "state `Open`" in found(review(POD_GROUP, group, objects=objects))["spec.queue"]
    assert found(review(POD_GROUP, {**group, "spec": {}}, objects=objects)) == {}


def step(name: str, *targets: str) -> Manifest:
    return {"name": name, "dependsOn": {"targets": list(targets)}}


OTHERS = [
    pytest.param(JOB_FLOW, "f", {"flows": [step("a", "x")]}, False, id="an undefined target"),
    pytest.param(JOB_FLOW, "f", {"flows": [step("a", "a")]}, False, id="itself"),
    pytest.param(JOB_FLOW, "f", {"flows": [step("a"), step("a")]}, True, id="a name twice"),
    pytest.param(JOB_FLOW, "f", {"flows": []}, False, id="no flows"),
    pytest.param(
        HYPER_NODE,
        "h",
        {"members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}]},
        False,
        id="no pattern",
    ),
    pytest.param(HYPER_NODE, "h", {"members": []}, False, id="no members"),
    pytest.param(CRON_JOB, "c" * 52, {"schedule": "@daily"}, True, id="a name of 52"),
    pytest.param(CRON_JOB, "c" * 53, {"schedule": "@daily"}, False, id="a name of 53"),
    pytest.param(CRON_JOB, "c", {"schedule": "TZ=UTC 0 0 * * *"}, False, id="TZ in the schedule"),
    pytest.param(CRON_JOB, "c", {"schedule": "@daily", "timeZone": "Local"}, False, id="Local"),
    pytest.param(CRON_JOB, "c", {"schedule": "@daily", "timeZone": "loCAL"}, False, id="local"),
    pytest.param(CRON_JOB, "c", {"schedule": "@daily", "timeZone": ""}, False, id="an empty zone"),
    pytest.param(CRON_JOB, "c", {"schedule": "@daily", "timeZone": "Europe/Berlin"}, True, id="a zone"),
]


@pytest.mark.parametrize(("kind", "name", "spec", "accepted"), OTHERS)
def test_flows_hyper_nodes_and_cron_jobs(kind: Kind, name: str, spec: Manifest, accepted: bool) -> None:
    manifest = {"metadata": {"name": name, "namespace": "d" if kind.namespaced else ""}, "spec": spec}
    assert (found(review(kind, manifest)) == {}) is accepted


def test_a_pod_that_asks_for_the_gate_gets_it_once_where_the_gate_is_on() -> None:
    pod = {
        "metadata": {"name": "p", "annotations": {"scheduling.volcano.sh/queue-allocation-gate": "true"}},
        "spec": {"schedulerName": "volcano"},
    }
    gate = [{"name": "scheduling.volcano.sh/queue-allocation-gate"}]
    gated = mutate(review(POD, pod, options=AdmissionOptions(gate_queue_admission=True)))
    assert gated is not None
    assert gated["spec"]["schedulingGates"] == gate
    again = mutate(review(POD, gated, options=AdmissionOptions(gate_queue_admission=True)))
    assert again == gated
    assert mutate(review(POD, pod)) == pod


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        pytest.param({"ssh": ["--colour=blue"]}, "", id="an unknown argument is harmless"),
        pytest.param({"ssh": ["--ssh-port=-10"]}, "", id="a port out of range means the default"),
        pytest.param({"ssh": ["--ssh-port=ssh"]}, "whole number", id="a port that is none"),
        pytest.param({"pytorch": ["--port", "x"]}, "a port from 1 to 65535", id="in two words"),
        pytest.param({"svc": ["--disable-network-policy"]}, "", id="a switch alone"),
        pytest.param({"svc": ["--disable-network-policy=yes"]}, "true or false", id="a switch that is none"),
    ],
)
def test_arguments_of_plugins_that_could_never_be_read_are_refused(plugins: Manifest, text: str) -> None:
    violations = found(review(JOB, job(plugins=plugins)))
    assert any(text in message for message in violations.values()) if text else violations == {}


def test_admission_knows_the_flags_that_the_plugins_read() -> None:
    plugins: tuple[tuple[str, type[Plugin]], ...] = (
        ("mpi", Mpi),
        ("pytorch", Pytorch),
        ("ray", Ray),
        ("ssh", Ssh),
        ("svc", Svc),
        ("tensorflow", Tensorflow),
    )
    for plugin, kind in plugins:
        switches = {name for name, default in kind.defaults.items() if isinstance(default, bool)}
        numbers = {name for name, default in kind.defaults.items() if isinstance(default, int)} - switches
        assert set(SWITCHES.get(plugin, ())) == switches, plugin
        assert set(NUMBERS.get(plugin, ())) == numbers, plugin

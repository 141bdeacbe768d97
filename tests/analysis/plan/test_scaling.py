"""A job that exists is scaled as the controllers would scale it."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.builders import START, node
from tests.scenario import cluster_of, config
from volcano.analysis.plan.new_jobs import InvalidManifest, new_objects
from volcano.analysis.plan.scaling import ScaleJob, ScalingError, scaled
from volcano.analysis.rerun.rerun import run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.kinds import POD, POD_GROUP
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.webhooks.review import AdmissionOptions


def job(*tasks: tuple[str, int], **spec: Any) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "tasks": [
                {"name": name, "replicas": count, "template": {"spec": {"containers": [container]}}}
                for name, count in tasks
            ],
            **spec,
        },
    }


def test_minimums_that_were_all_pods_follow_and_others_stay() -> None:
    spec = scaled(job(("worker", 2), minAvailable=2), 5)["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["tasks"][0]["minAvailable"]) == (5, 5, 5)
    assert scaled(job(("worker", 4), minAvailable=1), 5)["spec"]["minAvailable"] == 1
    both = scaled(job(("ps", 1), ("worker", 2), minAvailable=3), 4, "worker")["spec"]
    assert (both["minAvailable"], [task["replicas"] for task in both["tasks"]]) == (5, [1, 4])


def test_the_task_must_be_clear() -> None:
    with pytest.raises(ScalingError, match="has the tasks ps, worker; name one with --task"):
        scaled(job(("ps", 1), ("worker", 2)), 4)
    with pytest.raises(ScalingError, match="has no task 'wroker'; its tasks are worker"):
        scaled(job(("worker", 2)), 4, "wroker")


@pytest.mark.parametrize(("replicas", "enough"), [(1, True), (4, True), (5, False)])
def test_a_job_that_runs_is_scaled_with_its_pods_in_place(replicas: int, enough: bool) -> None:
    empty = ClusterState(cluster_of(nodes=[node("n1", cpu=4)]), START, seed=1)
    manifest = job(("worker", 2))
    (new,) = new_objects([manifest], empty, namespace="default", options=AdmissionOptions()).jobs
    before = empty.changed((new.change,))
    placed = run(before, config())
    assert starts(placed, new.uid)
    running = before.with_events((), {new.uid: ()}).changed((Placed(placed),))
    assert len(running.tasks(new.uid)) == 2
    wanted = scaled({**manifest, "metadata": {**manifest["metadata"], "uid": "planned"}}, replicas)
    after = running.changed((ScaleJob(orjson.dumps(wanted)),))
    assert len(after.tasks(new.uid)) == replicas
    rerun = run(after, config())
    assert len(rerun.placements) == (max(replicas - 2, 0) if enough else 0)


class Placed:
    """The pods of a re-run exist and run where it placed them."""

    def __init__(self, rerun: Any) -> None:
        self._rerun = rerun

    def sentence(self) -> str:
        return "its pods run"

    def apply(self, state: ClusterState) -> ClusterState:
        events = []
        for uid, found in self._rerun.after.jobs.items():
            events += [Event(EventType.ADDED, POD, task) for task in found.tasks.values()]
            group = state.group(uid)
            assert group is not None
            events.append(Event(EventType.MODIFIED, POD_GROUP, _running(group)))
        return state.with_events(events)


def _running(group: Any) -> Any:
    return replace(group, phase="Running", resource_version=f"{group.resource_version}+")


def test_a_job_whose_pods_exist_is_not_new() -> None:
    state = ClusterState(cluster_of(nodes=[node("n1", cpu=4)]), START)
    (new,) = new_objects([job(("worker", 2))], state, namespace="default", options=AdmissionOptions()).jobs
    present = state.changed((new.change,))
    with pytest.raises(
        InvalidManifest, match="Job default/train: PodGroup default/train-planned exists already"
    ):
        new_objects([job(("worker", 2))], present, namespace="default", options=AdmissionOptions())

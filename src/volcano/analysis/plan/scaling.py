"""Scaling of a job that exists: other numbers of pods of one task."""

from dataclasses import dataclass, replace
from typing import Any

import orjson

from volcano.analysis.rerun.expected_pods import pods_of
from volcano.analysis.rerun.state import ClusterState
from volcano.controllers.job.min_resources import min_resources
from volcano.controllers.job.podgroup import make_group
from volcano.controllers.job.spec import SpecError, parse_job
from volcano.controllers.job.status import Status
from volcano.kube.api.kinds import POD, POD_GROUP
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.api.names import SCHEDULER_NAME
from volcano.kube.client.protocol import Event, EventType
from volcano.model.job import PodGroup


class ScalingError(Exception):
    """A job that cannot be scaled as asked."""


def scaled(manifest: Manifest, replicas: int, task: str = "") -> Manifest:
    """The job with other replicas of a task, by default its only one. Minimums that were equal to the number of pods
    stay equal to it. Raises ScalingError."""
    spec: dict[str, Any] = {**manifest["spec"]}
    tasks = [dict(each) for each in spec.get("tasks") or ()]
    names = [each.get("name", "") for each in tasks]
    if task and task not in names:
        raise ScalingError(f"job {key_of(manifest)} has no task {task!r}; its tasks are {', '.join(names)}")
    if not task and len(tasks) != 1:
        raise ScalingError(f"job {key_of(manifest)} has the tasks {', '.join(names)}; name one with --task")
    chosen = tasks[names.index(task) if task else 0]
    before, total = chosen.get("replicas") or 0, sum(each.get("replicas") or 0 for each in tasks)
    if chosen.get("minAvailable") in (None, before):
        chosen["minAvailable"] = replicas
    chosen["replicas"] = replicas
    if spec.get("minAvailable") in (None, total):
        spec["minAvailable"] = total - before + replicas
    return {**manifest, "spec": {**spec, "tasks": tasks}}


@dataclass(frozen=True, slots=True)
class ScaleJob:
    """A job that exists gets the tasks of another version of it; pods that run and are still wanted stay."""

    manifest: bytes  # the job as it is meant to be

    def sentence(self) -> str:
        return f"job {key_of(orjson.loads(self.manifest))} is scaled"

    def apply(self, state: ClusterState) -> ClusterState:
        manifest = orjson.loads(self.manifest)
        try:
            job = parse_job(manifest, scheduler_name=SCHEDULER_NAME)
        except SpecError as error:
            raise ScalingError(f"Job {key_of(manifest)} is invalid: {error}") from None
        uid = f"{job.namespace}/{job.group_name}"
        wanted = {
            pod["metadata"]["name"]: state.decode(POD, orjson.dumps(pod))
            for pod in pods_of(job, state.priority, state.now)
        }
        coming = state.pods_to_come.get(uid, ())
        present = {task.name: task for task in state.tasks(uid) if task not in coming}
        new = tuple(task for name, task in wanted.items() if name not in present)
        waits = bool(coming) or not present
        events = [Event(EventType.DELETED, POD, t) for name, t in present.items() if name not in wanted]
        events += [] if waits else [Event(EventType.ADDED, POD, task) for task in new]
        group = state.group(uid)
        if group is not None:
            least = min_resources(job, dict(state.snapshot().priorities))
            made: PodGroup = state.decode(POD_GROUP, orjson.dumps(make_group(job, Status(), least)))
            edited = replace(
                group,
                min_member=made.min_member,
                min_task_member=made.min_task_member,
                min_resources=made.min_resources,
                min_resources_text=made.min_resources_text,
                sub_groups=made.sub_groups,
                resource_version=f"{group.resource_version}+",
            )
            events.append(Event(EventType.MODIFIED, POD_GROUP, edited))
        return state.with_events(events, {uid: new} if waits else {})

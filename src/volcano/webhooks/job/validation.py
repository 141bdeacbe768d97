"""Validation of new jobs: tasks, plugins, volumes, queues and dependencies."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import DEFAULT_QUEUE, JOB_DEPENDENCY, MAX_RUNNING_PODS, ROOT_QUEUE
from volcano.kube.api.quantity import parse
from volcano.kube.resources.extended import containers_of
from volcano.model.annotations import notify
from volcano.model.job_dependencies import parse_dependencies
from volcano.webhooks.job.plugins import check_plugins
from volcano.webhooks.job.policies import check_policies
from volcano.webhooks.names import QUALIFIED, check_names
from volcano.webhooks.numbers import (
    LARGEST,
    check_count,
    check_job_numbers,
    check_time_annotations,
    whole_number,
)
from volcano.webhooks.review import AdmissionRequest, Violation, annotations_in

NOT_A_DAG = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
ITERATIONS = ("any", "all")
ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def check_new_job(request: AdmissionRequest) -> Iterable[Violation]:
    """Validates a new job."""
    assert request.new is not None
    job, spec = request.new, request.new.get("spec") or {}
    tasks = tasks_of(spec)
    yield from check_job_numbers(spec)
    if not tasks:
        yield Violation("spec.tasks", "No task specified in job spec; give at least one")
        return
    yield from check_topology(spec.get("networkTopology"), "spec.networkTopology")
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        path = f"spec.tasks[{index}]"
        if task.get("name") in seen:
            yield Violation(f"{path}.name", f"duplicated task name {task['name']}")
        seen.add(task.get("name") or "")
        yield from _check_task(task, index, _name(job))
        yield from _check_template(task, index, request)
    yield from check_names(_name(job), spec, tasks)
    yield from check_annotations(job)
    yield from check_total(spec, tasks, "should not be greater than total replicas in tasks")
    yield from check_success(spec, tasks)
    yield from check_policies(spec.get("policies") or (), "spec.policies")
    yield from check_plugins(spec, tasks, request.options.job_plugins)
    yield from _check_volumes(spec.get("volumes") or ())
    yield from check_queue(request, spec.get("queue") or DEFAULT_QUEUE)
    yield from _check_dependencies(tasks)


def check_annotations(job: Manifest) -> Iterable[Violation]:
    """Validates the annotations of batch jobs: dependencies and the limit of pods that run together."""
    annotations, path = annotations_in(job), "metadata.annotations"
    try:
        needed = parse_dependencies(annotations.get(JOB_DEPENDENCY, ""))
    except ValueError as error:
        yield Violation(f"{path}[{JOB_DEPENDENCY}]", str(error))
        needed = []
    if any(dependency.name == _name(job) for dependency in needed):
        yield Violation(f"{path}[{JOB_DEPENDENCY}]", "a job cannot depend on itself")
    limit = annotations.get(MAX_RUNNING_PODS)
    if limit is not None and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:10]) < 2**31):
        yield Violation(f"{path}[{MAX_RUNNING_PODS}]", f"must be a whole number above 0 (it is {limit!r})")
    least = (job.get("spec") or {}).get("minAvailable")
    if limit is not None and isinstance(least, int) and limit.isdigit() and int(limit[:10]) < least:
        yield Violation(
            f"{path}[{MAX_RUNNING_PODS}]",
            f"{limit} is less than 'minAvailable' {least}: the job could not start",
        )
    yield from check_time_annotations(job)
    yield from check_notifications(annotations)


def check_notifications(annotations: Mapping[str, str]) -> Iterable[Violation]:
    """Validates the annotations about notifications."""
    for name, problem in notify.problems(annotations, of_queue=False):
        yield Violation(f"metadata.annotations[{name}]", problem)


def tasks_of(spec: Mapping[str, Any]) -> list[Manifest]:
    return [task or {} for task in spec.get("tasks") or ()]


def check_topology(topology: Mapping[str, Any] | None, path: str) -> Iterable[Violation]:
    """The highest tier is given by number or by name, not both."""
    if topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        text = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
        yield Violation(path, text)


def _check_task(task: Mapping[str, Any], index: int, job: str) -> Iterable[Violation]:
    path = f"spec.tasks[{index}]"
    named = f"in task: {task.get('name', '')}, job: {job}"
    yield from check_count(task, "replicas", f"{path}.replicas", f"'replicas' < 0 {named}")
    yield from check_count(task, "minAvailable", f"{path}.minAvailable", f"'minAvailable' < 0 {named}")
    yield from check_minimum(task, path, f"'minAvailable' is greater than 'replicas' {named}")
    yield from _check_retries(task, path)
    yield from check_policies(task.get("policies") or (), f"{path}.policies")
    yield from _check_numa(task, index)
    yield from check_partition(task, path)


def check_minimum(task: Mapping[str, Any], path: str, text: str) -> Iterable[Violation]:
    """A task has at least as many pods as it needs."""
    replicas, minimum = whole_number(task.get("replicas")), whole_number(task.get("minAvailable"))
    if minimum > max(replicas, 0):
        yield Violation(f"{path}.minAvailable", f"{text} ({minimum} > {replicas})")


def _check_retries(task: Mapping[str, Any], path: str) -> Iterable[Violation]:
    # -1 stands for any number of restarts.
    text = "'maxRetry' cannot be less than zero"
    yield from check_count(task, "maxRetry", f"{path}.maxRetry", text, least=-1)


def _check_numa(task: Mapping[str, Any], index: int) -> Iterable[Violation]:
    if task.get("topologyPolicy") in (None, "", "none"):
        return
    pod = (task.get("template") or {}).get("spec") or {}
    for container in containers_of(pod):
        resources = container.get("resources") or {}
        # A limit is the default of a request.
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.get("cpu", 0)
        amount = _number(asked)
        if amount is None or amount <= 0 or amount != int(amount):
            where = f"spec.tasks[{index}] container {container.get('name', '')}"
            text = f"the cpu request isn't an integer in {where}: {asked}"
            yield Violation(f"spec.tasks[{index}].template", text)


def check_partition(task: Mapping[str, Any], path: str) -> Iterable[Violation]:
    policy = task.get("partitionPolicy")
    if not policy:
        return
    here = f"{path}.partitionPolicy"
    total, size = policy.get("totalPartitions") or 0, policy.get("partitionSize") or 0
    minimum, least = task.get("minAvailable"), policy.get("minPartitions") or 0
    if total <= 0:
        yield Violation(f"{here}.totalPartitions", "'TotalPartitions' must be greater than 0")
    elif size <= 0:
        yield Violation(f"{here}.partitionSize", "'PartitionSize' must be greater than 0")
    elif total * size != (task.get("replicas") or 0):
        replicas = task.get("replicas")
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize: {replicas} is not {total}*{size}"
        yield Violation(here, text)
    elif minimum is not None and least > 0 and least * size != minimum:
        text = f"'MinAvailable' is not equal to MinPartitions*PartitionSize: {minimum} is not {least}*{size}"
        yield Violation(here, text)
    yield from check_topology(policy.get("networkTopology"), f"{here}.networkTopology")


def _name(job: Manifest) -> str:
    return str((job.get("metadata") or {}).get("name") or "")


def _check_template(task: Mapping[str, Any], index: int, request: AdmissionRequest) -> Iterable[Violation]:
    for cause in request.options.check_template(task.get("template") or {}):
        yield Violation(f"spec.tasks[{index}].template.{cause.field}", cause.message)


def check_total(spec: Mapping[str, Any], tasks: list[Manifest], text: str) -> Iterable[Violation]:
    """The tasks have at least as many pods as the job needs, and not more than can be counted."""
    total = sum(max(whole_number(task.get("replicas")), 0) for task in tasks)
    minimum = whole_number(spec.get("minAvailable"))
    if total > LARGEST:
        yield Violation("spec.tasks", f"total replicas in tasks {total} is too large; {LARGEST} is the most")
    elif minimum > total:
        yield Violation("spec.minAvailable", f"job 'minAvailable' {text}: {minimum} of {total}")


def check_success(spec: Mapping[str, Any], tasks: list[Manifest]) -> Iterable[Violation]:
    """As many pods as have to succeed exist."""
    needed, total = whole_number(spec.get("minSuccess")), sum(whole_number(t.get("replicas")) for t in tasks)
    if needed > total:
        text = f"'minSuccess' {needed} must be <= the total replicas in tasks, {total}: the job could not complete"
        yield Violation("spec.minSuccess", text)


def _check_volumes(volumes: Iterable[Mapping[str, Any]]) -> Iterable[Violation]:
    mounted: set[str] = set()
    for index, volume in enumerate(volumes):
        volume = volume or {}
        path, mount = f"spec.volumes[{index}]", volume.get("mountPath") or ""
        claim, name = volume.get("volumeClaim"), volume.get("volumeClaimName")
        if not mount:
            yield Violation(f"{path}.mountPath", "mountPath is required")
        elif mount in mounted:
            yield Violation(f"{path}.mountPath", f"duplicated mountPath: {mount}")
        mounted.add(mount)
        if claim is None and not name:
            yield Violation(path, "either VolumeClaim or VolumeClaimName must be specified")
        elif claim is not None and name:
            yield Violation(
                path,
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                "If you want to create a new PVC, you do not need to specify VolumeClaimName",
            )
        elif claim is not None:
            yield from _check_claim(claim, f"{path}.volumeClaim")
        elif name and (len(name) > 253 or not QUALIFIED.fullmatch(name)):
            yield Violation(
                f"{path}.volumeClaimName", f"invalid VolumeClaimName {name} : it must be a DNS subdomain"
            )


def _check_claim(claim: Mapping[str, Any], path: str) -> Iterable[Violation]:
    """A claim that the API server would accept: access modes and a size."""
    modes, choices = claim.get("accessModes") or [], ", ".join(ACCESS_MODES)
    if not modes:
        yield Violation(f"{path}.accessModes", f"at least one access mode is required; choose from {choices}")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield Violation(f"{path}.accessModes", f"unknown access mode {mode!r}; choose from {choices}")
    size = ((claim.get("resources") or {}).get("requests") or {}).get("storage")
    amount = None if size is None else _number(size)
    if amount is None or amount <= 0:
        given = "none is given" if size is None else f"it is {size!r}"
        text = f"must be an amount above 0 such as 10Gi ({given})"
        yield Violation(f"{path}.resources.requests[storage]", text)


def check_queue(request: AdmissionRequest, name: str) -> Iterable[Violation]:
    queue = request.lookup.find(QUEUE, Key("", name))
    if queue is None:
        known = ", ".join(sorted(q["metadata"]["name"] for q in request.lookup.all(QUEUE))) or "none"
        missing = f'queues.scheduling.volcano.sh "{name}" not found'
        yield Violation("spec.queue", f"unable to find job queue: {missing}; the queues are: {known}")
        return
    state = (queue.get("status") or {}).get("state", "")
    if name == ROOT_QUEUE:
        yield Violation("spec.queue", "can not submit job to root queue; choose a queue below it")
    elif any((q.get("spec") or {}).get("parent") == name for q in request.lookup.all(QUEUE)):
        text = f"can only submit job to leaf queue, queue `{name}` has child queues; choose one of those"
        yield Violation("spec.queue", text)
    elif state in ("Closed", "Closing", "Unknown"):
        text = f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`"
        yield Violation("spec.queue", text)


def _check_dependencies(tasks: list[Manifest]) -> Iterable[Violation]:
    graph = {t.get("name") or "": list((t.get("dependsOn") or {}).get("name") or ()) for t in tasks}
    for index, task in enumerate(tasks):
        iteration = (task.get("dependsOn") or {}).get("iteration")
        if iteration and iteration not in ITERATIONS:
            text = f"unknown iteration {iteration!r}; choose from {', '.join(ITERATIONS)}"
            yield Violation(f"spec.tasks[{index}].dependsOn.iteration", text)
        for target in graph[task.get("name") or ""]:
            if target not in graph:
                text = f"{NOT_A_DAG}: no task {target!r}"
                yield Violation(f"spec.tasks[{index}].dependsOn", text)
    loop = find_cycle(graph)
    if loop:
        text = f"{NOT_A_DAG}: {' -> '.join(loop)}"
        yield Violation("spec.tasks", text)


def find_cycle(graph: Mapping[str, list[str]]) -> list[str]:
    """Names along a cycle, first and last the same; empty when there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in reversed(error.args[1])]
    return []


def _number(value: Any) -> float | None:
    try:
        return float(parse(value))
    except ValueError:
        return None

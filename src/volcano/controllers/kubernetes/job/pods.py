"""Pods of a job: construction, release from the tracking finalizer, and the choice of those to delete."""

from collections.abc import Sequence

from volcano.controllers.kubernetes.job.policies import match_failure
from volcano.controllers.kubernetes.job.spec import (
    FINALIZER,
    IGNORED_INDEX_FAILURES,
    INDEX,
    INDEX_FAILURES,
    all_index_failures,
    has_limit_per_index,
    index_failures,
    index_of,
    is_indexed,
)
from volcano.controllers.kubernetes.pods import by_dispensability, pod_from_template
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, key_of, uid_of
from volcano.kube.client.operations import Create, Delete, Patch
from volcano.kube.client.protocol import Options, PatchType

VARIABLE = "JOB_COMPLETION_INDEX"
_STRATEGIC = Options(patch_type=PatchType.STRATEGIC)


def create(job: Manifest, index: int | None = None, replaced: Manifest | None = None) -> Create:
    """Creates a pod; for an Indexed job that of an index, in place of the pod of that index which failed last."""
    pod = pod_from_template(job["spec"]["template"], job)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*dict.fromkeys((*(metadata.get("finalizers") or ()), FINALIZER))]
    if index is not None:
        name = job["metadata"]["name"]
        metadata.setdefault("annotations", {})[INDEX] = str(index)
        metadata.setdefault("labels", {})[INDEX] = str(index)
        metadata["generateName"] = f"{name}-{index}-"
        pod["spec"]["hostname"] = f"{name}-{index}"
        _add_index_variable(pod)
        if has_limit_per_index(job):
            metadata["annotations"] |= _failure_counts(job, replaced)
    return Create(POD, pod)


def _add_index_variable(pod: Manifest) -> None:
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
        variables = container.get("env") or []
        if all(variable["name"] != VARIABLE for variable in variables):
            container["env"] = [*variables, {"name": VARIABLE, "valueFrom": source}]


def _failure_counts(job: Manifest, replaced: Manifest | None) -> dict[str, str]:
    """Annotations that carry the failures of an index from pod to pod."""
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counted, ignored = index_failures(replaced), all_index_failures(replaced) - index_failures(replaced)
    if match_failure(job, replaced).counts:
        counted += 1
    else:
        ignored += 1
    return {INDEX_FAILURES: str(counted), **({IGNORED_INDEX_FAILURES: str(ignored)} if ignored else {})}


def delete(pod: Manifest) -> Delete:
    return Delete(POD, key_of(pod), Options(uid=uid_of(pod)), if_present=True)


def release(pod: Manifest) -> Patch:
    """Removes the tracking finalizer, whatever else has changed in the pod."""
    metadata = {"uid": uid_of(pod), "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return Patch(POD, key_of(pod), {"metadata": metadata}, options=_STRATEGIC, if_present=True)


def surplus(job: Manifest, active: Sequence[Manifest], count: int) -> list[Manifest]:
    """The active pods to delete, at least `count`: first those whose index is taken or beyond the completions."""
    chosen: list[Manifest] = []
    rest = list(active)
    if is_indexed(job):
        rest, taken = [], set[int]()
        for pod in reversed(by_dispensability(active)):
            index = index_of(pod, job)
            if index is None or index in taken:
                chosen.append(pod)
            else:
                taken.add(index)
                rest.append(pod)
    missing = max(count - len(chosen), 0)
    return [*chosen, *by_dispensability(rest)[:missing]]

"""Validation of job updates: sizes and priority may change. Other fields are compared by meaning, not by
notation."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import DEFAULT_QUEUE
from volcano.kube.api.quantity import parse
from volcano.webhooks.job.defaults import set_job_defaults, set_spec_defaults
from volcano.webhooks.job.validation import (
    check_minimum,
    check_notifications,
    check_partition,
    check_queue,
    check_success,
    check_topology,
    check_total,
    tasks_of,
)
from volcano.webhooks.names import check_host_names
from volcano.webhooks.numbers import TIME_ANNOTATIONS, check_count, check_time_annotations
from volcano.webhooks.review import AdmissionRequest, Violation, annotations_in

# Fields with quantities, which have more than one notation.
AMOUNTS = ("limits", "requests")
# Fields that mean nothing when empty. Elsewhere `{}` is a value: an `emptyDir`, a selector that matches
# everything.
MEANINGLESS_WHEN_EMPTY = frozenset(
    (*AMOUNTS, "resources", "metadata", "labels", "annotations", "nodeSelector", "plugins")
)


# Phases in which a job may move to another queue: it has no running pods.
MOVABLE = ("Pending", "Aborted")


def check_job_update(request: AdmissionRequest) -> Iterable[Violation]:
    """Validates an update of a job: sizes may change, other fields may not."""
    assert request.old is not None
    # Defaults are set here as well: the API server may not call the mutating webhook for updates yet. The
    # controllers treat the stored job the same.
    new, old = set_job_defaults(request)["spec"], copy.deepcopy(request.old.get("spec") or {})
    old.setdefault("schedulerName", new["schedulerName"])
    set_spec_defaults(old)
    known, given = annotations_in(request.old), annotations_in(request.new)
    if known != given:
        yield from check_notifications(given)
    if any(known.get(name) != given.get(name) for name in TIME_ANNOTATIONS):
        yield from check_time_annotations(request.new or {})
    tasks, before = tasks_of(new), tasks_of(old)
    for index, task in enumerate(tasks):
        yield from _check_sizes(task, f"spec.tasks[{index}]", request.key.name)
        yield from check_partition(task, f"spec.tasks[{index}]")
    yield from check_topology(new.get("networkTopology"), "spec.networkTopology")
    yield from check_count(new, "minAvailable", "spec.minAvailable", "job 'minAvailable' must be >= 0")
    yield from check_total(new, tasks, "must not be greater than total replicas")
    if _replicas(tasks) != _replicas(before):
        yield from check_success(new, tasks)
        yield from check_host_names(request.key.name, new, tasks)
    if len(tasks) != len(before):
        yield Violation("spec.tasks", "job updates may not add or remove tasks")
        return
    if _phase(request.old) in MOVABLE and old.get("queue") != new.get("queue"):
        violations = list(check_queue(request, new.get("queue") or DEFAULT_QUEUE))
        yield from violations
        if not violations:
            old["queue"] = new.get("queue")
    changed = _changed(_fixed(old), _fixed(new))
    if changed:
        yield Violation(
            "spec",
            "job updates may not change fields other than `minAvailable`, `priorityClassName`, `tasks[*].replicas` "
            f"and `tasks[*].minAvailable`; changed: {', '.join(changed)}",
        )


def _replicas(tasks: list[Manifest]) -> list[Any]:
    return [task.get("replicas") for task in tasks]


def _phase(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def _check_sizes(task: Mapping[str, Any], path: str, job: str) -> Iterable[Violation]:
    named = f"in task: {task.get('name', '')}"
    yield from check_count(task, "replicas", f"{path}.replicas", f"'replicas' must be >= 0 {named}")
    yield from check_count(
        task, "minAvailable", f"{path}.minAvailable", f"'minAvailable' must be >= 0 {named}"
    )
    # Volcano words this rule differently for new jobs and for updates.
    wrong, right = "'minAvailable' is greater than 'replicas'", "'minAvailable' must be <= 'replicas'"
    yield from check_minimum(task, path, f"{wrong} {named}, job: {job}; {right} {named}")


def _fixed(spec: Mapping[str, Any]) -> Manifest:
    """The fields of a job's spec that may not change."""
    kept = {
        k: v for k, v in spec.items() if k not in ("minAvailable", "priorityClassName", "tasks", "volumes")
    }
    kept["tasks"] = [
        {k: v for k, v in task.items() if k not in ("replicas", "minAvailable")} for task in tasks_of(spec)
    ]
    kept["volumes"] = [
        {k: v for k, v in (volume or {}).items() if k != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in spec.get("volumes") or ()
    ]
    return kept


def _changed(before: Manifest, after: Manifest) -> list[str]:
    """The fields whose meaning differs."""
    was, now = _meaning(before), _meaning(after)
    return [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]


def _meaning(value: Any, name: str = "") -> Any:
    """A value without empty fields and with quantities as numbers, as typed clients write it back."""
    if isinstance(value, Mapping) and name == "plugins":  # a plugin without arguments is one nevertheless
        return {key: arguments or [] for key, arguments in value.items()}
    if isinstance(value, Mapping):
        inner = "amount" if name in AMOUNTS else ""
        meanings = {key: _meaning(part, inner or key) for key, part in value.items()}
        return {key: part for key, part in meanings.items() if not _is_meaningless(key, part)}
    if isinstance(value, list):
        return [_meaning(part) for part in value]
    if name == "amount":
        try:
            return parse(value)
        except ValueError:
            return value
    return value


def _is_meaningless(name: str, value: Any) -> bool:
    return value is None or value == [] or (value == {} and name in MEANINGLESS_WHEN_EMPTY)

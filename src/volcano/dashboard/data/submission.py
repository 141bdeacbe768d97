"""The form of a Job: a view of a manifest, which is the only place where its values are.

Each field reads and writes one place of the manifest and leaves everything else as it is, so that the form and the YAML
beside it always show the same Job, whatever else the YAML has.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from volcano.base.yaml_dumper import dump
from volcano.dashboard.objects import Objects
from volcano.embedded.files import FileError, read_text
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB, NAMESPACE, NODE, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Manifest, whole_number
from volcano.kube.api.names import USER, WALLTIME

GPU = "nvidia.com/gpu"
GENERATED = "job-"  # what the server begins the name of a job with that has none
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SHELLS = (["/bin/sh", "-c"], ["sh", "-c"], ["/bin/bash", "-c"], ["bash", "-c"])
Path = tuple[str | int, ...]


class Field(NamedTuple):
    """One input: its name, where its value is in the manifest, and how it is read and written."""

    name: str
    path: Path
    read: Callable[[Manifest], Any]
    write: Callable[[Manifest, Any], Manifest]


# -- manifests ---------------------------------------------------------------------------------------


def value_at(value: Any, path: Path) -> Any:
    """The value at a path; None where there is none, also where something on the way has another type."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def with_value(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value at a path. None removes the key, and maps on the way that are empty then."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(value) if isinstance(value, list) else []
        items += [{} for _ in range(step + 1 - len(items))]
        items[step] = with_value(items[step], rest, new)
        return items
    changed = dict(value) if isinstance(value, dict) else {}
    inner = with_value(changed.get(step), rest, new)
    if new is None and (inner is None or inner == {}):
        changed.pop(step, None)
    else:
        changed[step] = inner
    return changed


# -- fields ------------------------------------------------------------------------------------------


def _text(name: str, *path: str | int) -> Field:
    """A text; an empty one removes the key."""

    def read(manifest: Manifest) -> str:
        value = value_at(manifest, path)
        return value if isinstance(value, str) else "" if value is None else str(value)

    return Field(name, path, read, lambda manifest, new: with_value(manifest, path, str(new or "") or None))


def _number(name: str, *path: str | int) -> Field:
    """A whole number as text; an empty one removes the key, any other text is written as it is, for the server to
    reject."""

    def read(manifest: Manifest) -> str:
        value = value_at(manifest, path)
        return "" if value is None else str(value)

    def write(manifest: Manifest, new: Any) -> Manifest:
        text = str(new or "").strip()
        number = whole_number(text.removeprefix("-"))
        value = (text or None) if number is None else -number if text.startswith("-") else number
        changed: Manifest = with_value(manifest, path, value)
        return changed

    return Field(name, path, read, write)


NAME_PATH: Path = ("metadata", "name")
PREFIX_PATH: Path = ("metadata", "generateName")
CONTAINER: Path = ("template", "spec", "containers", 0)
REQUESTS: Path = (*CONTAINER, "resources", "requests")
LIMITS: Path = (*CONTAINER, "resources", "limits")
COMMAND: Path = (*CONTAINER, "command")
ARGUMENTS: Path = (*CONTAINER, "args")
PLUGINS: Path = ("spec", "plugins")


def _write_name(manifest: Manifest, new: Any) -> Manifest:
    name = str(new or "").strip()
    prefix = None if name else value_at(manifest, PREFIX_PATH) or GENERATED
    changed: Manifest = with_value(with_value(manifest, NAME_PATH, name or None), PREFIX_PATH, prefix)
    return changed


def _read_plugins(manifest: Manifest) -> list[str]:
    plugins = value_at(manifest, PLUGINS)
    return [str(name) for name in plugins] if isinstance(plugins, dict) else []


def _write_plugins(manifest: Manifest, new: Any) -> Manifest:
    """Keeps the arguments of plugins that were there before."""
    before = value_at(manifest, PLUGINS)
    known = before if isinstance(before, dict) else {}
    plugins = {str(name): known.get(name, []) for name in new or ()}
    changed: Manifest = with_value(manifest, PLUGINS, plugins or None)
    return changed


def _read_command(task: Manifest) -> str:
    command, arguments = value_at(task, COMMAND) or [], value_at(task, ARGUMENTS) or []
    if not isinstance(command, list) or not isinstance(arguments, list):
        return ""
    words = [str(word) for word in (*command, *arguments)]
    if len(words) == 3 and words[:2] in SHELLS:
        return words[2]
    return shlex.join(words)


def _write_command(task: Manifest, new: Any) -> Manifest:
    text = str(new or "").strip()
    command = [*SHELLS[0], text] if text else None
    changed: Manifest = with_value(with_value(task, COMMAND, command), ARGUMENTS, None)
    return changed


def _quantity(name: str) -> Field:
    """A request of the first container; a limit that was equal to it stays equal."""

    def read(task: Manifest) -> str:
        value = value_at(task, (*REQUESTS, name))
        value = value_at(task, (*LIMITS, name)) if value is None else value
        return "" if value is None else str(value)

    def write(task: Manifest, new: Any) -> Manifest:
        text = str(new or "").strip() or None
        limit = value_at(task, (*LIMITS, name))
        changed: Manifest = with_value(task, (*REQUESTS, name), text)
        if limit is not None and str(limit) == read(task):
            changed = with_value(changed, (*LIMITS, name), text)
        return changed

    return Field(name, (*REQUESTS, name), read, write)


def device_of(task: Manifest) -> str:
    """Name of the extended resource that the form shows as GPUs: the first one that the task asks for."""
    for path in (LIMITS, REQUESTS):
        resources = value_at(task, path)
        for name in resources if isinstance(resources, dict) else ():
            if "/" in str(name):
                return str(name)
    return ""


def _read_devices(task: Manifest) -> str:
    name = device_of(task)
    value = value_at(task, (*LIMITS, name))
    return str(value_at(task, (*REQUESTS, name)) if value is None else value) if name else ""


def with_devices(task: Manifest, name: str, count: str) -> Manifest:
    """The task with this number of an extended resource: requests and limits of these are always equal."""
    before, text = device_of(task), count.strip() or None
    text = None if text == "0" else text
    for path in (REQUESTS, LIMITS):
        if before:
            task = with_value(task, (*path, before), None)
        if text is not None:
            task = with_value(task, (*path, name), text)
    return task


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("name", NAME_PATH, _text("name", *NAME_PATH).read, _write_name),
        _text("namespace", "metadata", "namespace"),
        _text("queue", "spec", "queue"),
        _number("minAvailable", "spec", "minAvailable"),
        _text("priorityClassName", "spec", "priorityClassName"),
        _text("walltime", "metadata", "annotations", WALLTIME),
        Field("plugins", PLUGINS, _read_plugins, _write_plugins),
    )
}
TASK_FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        _text("name", "name"),
        _number("replicas", "replicas"),
        _text("image", *CONTAINER, "image"),
        Field("command", COMMAND, _read_command, _write_command),
        _quantity("cpu"),
        _quantity("memory"),
        Field(
            "devices",
            LIMITS,
            _read_devices,
            lambda task, new: with_devices(task, device_of(task) or GPU, str(new or "")),
        ),
        Field(
            "device",
            LIMITS,
            device_of,
            lambda task, new: with_devices(task, str(new or GPU), _read_devices(task) or "1"),
        ),
    )
}

# -- jobs --------------------------------------------------------------------------------------------


def new_task(name: str) -> Manifest:
    container = {
        "name": "main",
        "image": "busybox",
        "command": [*SHELLS[0], "sleep 60"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "name": name,
        "replicas": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }


def new_job(namespace: str, queue: str) -> Manifest:
    """The Job that an empty form starts with."""
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"generateName": GENERATED, "namespace": namespace},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [new_task("worker")],
        },
    }


def copy_of(job: Manifest) -> Manifest:
    """A Job to submit again: without what the server and the controllers wrote."""
    metadata = job["metadata"]
    kept = {name: metadata[name] for name in ("namespace", "labels", "annotations") if metadata.get(name)}
    annotations = {n: v for n, v in kept.pop("annotations", {}).items() if n not in (USER, LAST_APPLIED)}
    if annotations:
        kept["annotations"] = annotations
    name = metadata["name"]
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": f"{name[:58]}-copy", **kept},
        "spec": job["spec"],
    }


def tasks_of(job: Manifest) -> list[Manifest]:
    tasks = value_at(job, ("spec", "tasks"))
    return [task if isinstance(task, dict) else {} for task in tasks] if isinstance(tasks, list) else []


def with_tasks(job: Manifest, tasks: Sequence[Manifest]) -> Manifest:
    changed: Manifest = with_value(job, ("spec", "tasks"), list(tasks))
    return changed


def add_task(job: Manifest) -> Manifest:
    """One task more, with a name that no other has."""
    tasks = tasks_of(job)
    taken = {task.get("name") for task in tasks}
    name = next(name for name in ("worker", *(f"task-{n}" for n in range(1, 1000))) if name not in taken)
    return with_tasks(job, [*tasks, new_task(name)])


def remove_task(job: Manifest, position: int) -> Manifest:
    return with_tasks(job, [task for index, task in enumerate(tasks_of(job)) if index != position])


def write_task(job: Manifest, position: int, field: str, new: Any) -> Manifest:
    tasks = tasks_of(job)
    tasks[position] = TASK_FIELDS[field].write(tasks[position], new)
    return with_tasks(job, tasks)


# -- text --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A YAML text: its objects, the one Job that the form shows, or why the form shows none."""

    objects: tuple[Manifest, ...] = ()
    job: Manifest | None = None
    error: str = ""  # why the text cannot be used
    note: str = ""  # why the form does not show it


def parse_text(text: str) -> Text:
    try:
        found = tuple(document.manifest for document in read_text("YAML", text))
    except FileError as error:
        return Text(error=str(error).removeprefix("YAML: "))
    if not found:
        return Text(error="there is no object in this text")
    if len(found) > 1 or (found[0]["apiVersion"], found[0]["kind"]) != (JOB.api_version, JOB.kind):
        return Text(found, note="The form shows a single Job; this text is previewed and created as it is.")
    return Text(found, job=found[0])


def text_of(job: Manifest) -> str:
    return dump(job)


# -- errors ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the server: at a field of the form, or as text where `field` is "" (task is -1 for the job's)."""

    message: str
    field: str = ""
    task: int = -1


def problems_of(error: ApiError) -> list[Problem]:
    """The causes of an error, each at its field where the form has it."""
    found = []
    for cause in error.causes:
        task, field = _place(_steps(cause.field))
        where = "" if field or not cause.field else f"{cause.field}: "
        found.append(Problem(where + cause.message, field, task))
    return found or [Problem(error.message)]


def _steps(field: str) -> Path:
    """`spec.tasks[0].name` as ("spec", "tasks", 0, "name")."""
    steps: list[str | int] = []
    for part in field.replace("]", "").split("."):
        name, *positions = part.split("[")
        steps += [name] if name else []
        steps += [int(each) if each.isdecimal() else each for each in positions]
    return tuple(steps)


def _place(steps: Path) -> tuple[int, str]:
    """Task and field of the form that show what is at a path."""
    if steps[:2] == ("spec", "tasks") and len(steps) > 2 and isinstance(steps[2], int):
        return steps[2], _nearest(TASK_FIELDS.values(), steps[3:])
    # A name with dots, such as that of an annotation, is not split by what wrote the path.
    return -1, _nearest(FIELDS.values(), steps) or ("walltime" if "walltime" in str(steps[-1:]) else "")


def _nearest(fields: Iterable[Field], steps: Path) -> str:
    for field in fields:
        if steps and steps[: len(field.path)] == field.path:
            return field.name
    if steps[: len(REQUESTS)] in (REQUESTS, LIMITS):
        return "devices"
    return ""


# -- choices -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choices:
    """Names that the viewer can choose from."""

    namespaces: tuple[str, ...]
    queues: tuple[str, ...]  # that accept jobs
    priority_classes: tuple[str, ...]
    devices: tuple[str, ...]


def choices(objects: Objects) -> Choices:
    namespaces = {each["metadata"]["name"] for each in objects.of(NAMESPACE)}
    namespaces |= {each for each in objects.scopes.of(JOB) if each != "*"}
    queues = {
        each["metadata"]["name"]
        for each in objects.of(QUEUE)
        if (value_at(each, ("status", "state")) or "Open") == "Open"
    }
    devices = {
        name
        for node in objects.of(NODE)
        for name in value_at(node, ("status", "allocatable")) or ()
        if "/" in name
    }
    return Choices(
        tuple(sorted(namespaces)),
        tuple(sorted(queues)),
        tuple(sorted(each["metadata"]["name"] for each in objects.of(PRIORITY_CLASS))),
        tuple(sorted(devices | {GPU}, key=lambda name: (name != GPU, name))),
    )

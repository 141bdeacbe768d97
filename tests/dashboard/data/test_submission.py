"""The form of a Job and its YAML: each field changes its own place only, and errors are found at their fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.dashboard.data.submission import (
    FIELDS,
    TASK_FIELDS,
    Problem,
    add_task,
    choices,
    copy_of,
    new_job,
    parse_text,
    problems_of,
    remove_task,
    tasks_of,
    text_of,
    value_at,
    with_value,
    write_task,
)
from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.kube.api.errors import Cause, Forbidden, Invalid
from volcano.kube.api.kinds import NAMESPACE, NODE, PRIORITY_CLASS, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import USER, WALLTIME

WORDS = st.text("abc xyz-019.$\"'|\n", max_size=12).map(str.strip)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "minAvailable": st.integers(0, 99).map(str) | st.just(""),
    "plugins": st.lists(st.sampled_from(["svc", "ssh", "env", "pytorch"]), unique=True),
    "replicas": st.integers(0, 99).map(str),
    "devices": st.integers(1, 8).map(str) | st.just(""),
    "device": st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
}


def manifest(**task: Any) -> Manifest:
    job = new_job("team", "research")
    container = {
        "name": "main",
        "image": "trainer",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "4Gi"}},
    }
    sidecar = {"name": "logs", "image": "shipper"}
    spec = {"containers": [container, sidecar], "nodeSelector": {"zone": "a"}}
    job["spec"]["tasks"] = [{"name": "worker", "replicas": 2, "template": {"spec": spec}, **task}]
    job["spec"]["plugins"] = {"ssh": ["--port=2222"]}
    return job


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_a_field_reads_what_was_written_and_changes_nothing_else(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES.get(name, WORDS))
    before = manifest()
    after = FIELDS[name].write(before, value)
    assert FIELDS[name].read(after) == value
    assert before == manifest(), "the manifest itself is not changed"
    for other in FIELDS.values():
        if other.name != name:
            assert other.read(after) == other.read(before)
    assert tasks_of(after) == tasks_of(before)


@given(st.sampled_from(sorted(set(TASK_FIELDS) - {"device"})), st.data())
def test_a_field_of_a_task_reads_what_was_written_and_changes_nothing_else(
    name: str, data: st.DataObject
) -> None:
    value = data.draw(VALUES.get(name, WORDS))
    before = manifest()
    after = write_task(before, 0, name, value)
    (task,), (old,) = tasks_of(after), tasks_of(before)
    assert TASK_FIELDS[name].read(task) == value or (name in ("cpu", "memory") and value == "")
    for other in TASK_FIELDS.values():
        if other.name not in (name, "device"):
            assert other.read(task) == other.read(old)
    spec = task["template"]["spec"]
    assert spec["containers"][1] == {"name": "logs", "image": "shipper"}
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert spec["nodeSelector"] == {"zone": "a"}


@given(st.dictionaries(st.sampled_from(["name", "queue", "walltime", "minAvailable"]), WORDS))
def test_the_text_shows_the_same_job_as_the_form(values: dict[str, str]) -> None:
    job = manifest()
    for name, value in values.items():
        job = FIELDS[name].write(job, value)
    parsed = parse_text(text_of(job))
    assert parsed.job == job
    assert not parsed.error


def test_a_job_without_a_name_gets_one_from_the_server() -> None:
    named = FIELDS["name"].write(new_job("a", "b"), "train")
    assert named["metadata"] == {"namespace": "a", "name": "train"}
    assert FIELDS["name"].write(named, "")["metadata"] == {"namespace": "a", "generateName": "job-"}


def test_plugins_keep_their_arguments() -> None:
    job = FIELDS["plugins"].write(manifest(), ["svc", "ssh"])
    assert job["spec"]["plugins"] == {"svc": [], "ssh": ["--port=2222"]}
    assert "plugins" not in FIELDS["plugins"].write(job, [])["spec"]


def test_a_limit_that_was_equal_to_a_request_stays_equal() -> None:
    (task,) = tasks_of(write_task(manifest(), 0, "cpu", "3"))
    resources = value_at(task, ("template", "spec", "containers", 0, "resources"))
    assert resources == {"requests": {"cpu": "3"}, "limits": {"cpu": "3", "memory": "4Gi"}}


def test_gpus_are_requests_and_limits() -> None:
    job = write_task(manifest(), 0, "devices", "4")
    path = ("spec", "tasks", 0, "template", "spec", "containers", 0, "resources")
    assert value_at(job, path)["requests"]["nvidia.com/gpu"] == "4"
    other = write_task(job, 0, "device", "amd.com/gpu")
    assert value_at(other, path)["limits"] == {"cpu": "2", "memory": "4Gi", "amd.com/gpu": "4"}
    none = write_task(other, 0, "devices", "0")
    assert value_at(none, path) == value_at(manifest(), path)


@pytest.mark.parametrize(
    ("container", "shown"),
    [
        ({"command": ["/bin/sh", "-c", "echo $HOME | wc"]}, "echo $HOME | wc"),
        ({"command": ["python", "train.py"], "args": ["--name", "a b"]}, "python train.py --name 'a b'"),
        ({"command": "sleep"}, ""),
        ({}, ""),
    ],
)
def test_commands_are_shown_as_a_shell_would_take_them(container: Manifest, shown: str) -> None:
    task = {"template": {"spec": {"containers": [container]}}}
    assert TASK_FIELDS["command"].read(task) == shown


@pytest.mark.parametrize("value", [None, 3, "x", [], {"tasks": 3}, {"tasks": [3, None]}, {"tasks": [{}]}])
def test_a_spec_of_any_type_can_be_shown_and_completed(value: Any) -> None:
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "spec": value}
    for field in FIELDS.values():
        field.read(job)
    for task in tasks_of(job):
        for field in TASK_FIELDS.values():
            field.read(task)
    assert FIELDS["queue"].read(FIELDS["queue"].write(job, "q")) == "q"


def test_tasks_are_added_with_names_of_their_own_and_removed() -> None:
    job = add_task(add_task(manifest()))
    assert [task["name"] for task in tasks_of(job)] == ["worker", "task-1", "task-2"]
    assert [task["name"] for task in tasks_of(remove_task(job, 1))] == ["worker", "task-2"]


def test_removing_a_value_removes_the_maps_that_held_only_it() -> None:
    job = FIELDS["walltime"].write(new_job("a", "b"), "2h")
    assert job["metadata"]["annotations"] == {WALLTIME: "2h"}
    assert FIELDS["walltime"].write(job, "") == new_job("a", "b")
    assert with_value({}, ("a", 1, "b"), 2) == {"a": [{}, {"b": 2}]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "not valid YAML"),
        ("", "no object"),
        ("kind: Job\nkind: Job", "not valid YAML"),
        ("- 1", "an object with apiVersion"),
        ("apiVersion: v1\nkind: Pod", "Pod has no metadata.name"),
    ],
)
def test_a_text_that_cannot_be_used_says_why(text: str, error: str) -> None:
    parsed = parse_text(text)
    assert error in parsed.error
    assert parsed.job is None


def test_a_text_of_several_objects_is_not_shown_in_the_form() -> None:
    parsed = parse_text(text_of(manifest()) + "---\n" + text_of(manifest()))
    assert len(parsed.objects) == 2
    assert parsed.job is None
    assert "single Job" in parsed.note


def test_errors_of_the_server_are_at_their_fields() -> None:
    container = "spec.tasks[1].template.spec.containers[0]"
    fields = {
        "metadata.name": (-1, "name"),
        "spec.queue": (-1, "queue"),
        f"metadata.annotations[{WALLTIME}]": (-1, "walltime"),
        "spec.tasks[1].replicas": (1, "replicas"),
        f"{container}.image": (1, "image"),
        f"{container}.resources.requests[cpu]": (1, "cpu"),
        f"{container}.resources.limits[nvidia.com/gpu]": (1, "devices"),
        "spec.policies[0].event": (-1, ""),
    }
    error = Invalid("Job is invalid", causes=[Cause("FieldValueInvalid", "wrong", each) for each in fields])
    found = problems_of(error)
    assert [(each.task, each.field) for each in found] == list(fields.values())
    assert found[-1].message == "spec.policies[0].event: wrong"


def test_an_error_without_causes_is_shown_as_text() -> None:
    assert problems_of(Forbidden("no")) == [Problem("no")]


def test_a_copy_has_nothing_that_the_server_wrote() -> None:
    job = manifest()
    job["metadata"] |= {"name": "train", "uid": "1", "resourceVersion": "2", "labels": {"a": "b"}}
    job["metadata"]["annotations"] = {USER: "jane"}
    copied = copy_of({**job, "status": {"state": {}}})
    assert copied["metadata"] == {"name": "train-copy", "namespace": "team", "labels": {"a": "b"}}
    assert "status" not in copied


def test_the_choices_are_what_the_viewer_may_see() -> None:
    found: dict[Kind, list[Manifest]] = {
        NAMESPACE: [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}],
        QUEUE: [{"metadata": {"name": "q"}, "status": {"state": "Closed"}}, {"metadata": {"name": "p"}}],
        PRIORITY_CLASS: [{"metadata": {"name": "high"}}],
        NODE: [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "amd.com/gpu": "8"}}}],
    }
    offered = choices(Objects(1, 0.0, found, Scopes({"jobs.batch.volcano.sh": frozenset({"c"})})))
    assert offered.namespaces == ("a", "b", "c")
    assert offered.queues == ("p",), "a closed queue accepts no job"
    assert offered.priority_classes == ("high",)
    assert offered.devices == ("nvidia.com/gpu", "amd.com/gpu")

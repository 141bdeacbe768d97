"""What the API server does not ask us about: only what we would have had nothing to say to."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webhooks.reviews import Objects, job, task
from volcano.apiserver.schema.match_conditions import compile_match_condition
from volcano.controllers.job.observe import compile_job
from volcano.controllers.job.plugins.keys import KeyPool
from volcano.controllers.job.podgroup import make_group
from volcano.controllers.job.status import Status
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.webhooks.conditions import lacks_defaults, not_our_controllers
from volcano.webhooks.registration import configurations
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest
from volcano.webhooks.rules import BY_PATH, apply_mutator

OURS = "system:serviceaccount:volcano-system:volcano-controllers"
# What may stand anywhere instead of what belongs there.
ODDITIES: list[Any] = [None, "", "text", 0, 1, 2.5, True, [], {}, [None], ["text"], {"a/b": "1"}, {"a": None}]


def is_asked(condition: Manifest, manifest: Any, *, operation: str = "CREATE", user: str = "jane") -> bool:
    review = {"operation": operation, "userInfo": {"username": user}}
    program = compile_match_condition(condition["expression"])
    value, _ = program.evaluate({"object": manifest, "oldObject": None, "request": review})
    return bool(value)


def with_defaults(manifest: Manifest) -> Manifest | None:
    request = AdmissionRequest(
        "CREATE", JOB, Key("default", "j"), manifest, None, Objects(), AdmissionOptions(), "jane"
    )
    return apply_mutator(BY_PATH["/jobs/mutate"], request)


def complete_job() -> Manifest:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    found = with_defaults(job(task("a", template={"spec": {"containers": [container]}})))
    assert found is not None
    return found


def paths_in(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object, by the way to it."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [here, *(path for name, entry in entries for path in paths_in(entry, (*here, name)))][
        bool(not here) :
    ]


def test_a_job_in_which_nothing_is_left_open_is_not_asked_about() -> None:
    assert not is_asked(lacks_defaults(), complete_job())


def test_changes_are_always_asked_about() -> None:
    assert is_asked(lacks_defaults(), complete_job(), operation="UPDATE")


@pytest.mark.parametrize("path", paths_in(complete_job()["spec"]), ids=str)
@pytest.mark.parametrize("odd", [..., *ODDITIES], ids=repr)
def test_whatever_is_missing_or_odd_we_are_asked_if_there_is_something_to_fill_in(
    path: tuple[Any, ...], odd: Any
) -> None:
    """And the condition has an answer: one that failed would refuse the job, and say nothing of its fault."""
    manifest = complete_job()
    *way, last = ("spec", *path)
    place: Any = manifest
    for name in way:
        place = place[name]
    if odd is ...:
        del place[last]
    else:
        place[last] = copy.deepcopy(odd)
    if with_defaults(copy.deepcopy(manifest)) != manifest:
        assert is_asked(lacks_defaults(), manifest)
    else:
        is_asked(lacks_defaults(), manifest)


resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "vendor/x"]), st.just("1"), max_size=3
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c")},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"requests": resources, "limits": resources})
        },
    ),
    max_size=2,
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "containers": containers,
        "initContainers": containers,
        "hostNetwork": st.booleans(),
        "dnsPolicy": st.sampled_from(["", "Default"]),
    },
)
counts = st.integers(0, 3)
tasks = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["", "a"]),
        "replicas": counts,
        "minAvailable": counts,
        "maxRetry": counts,
        "template": st.fixed_dictionaries({}, optional={"spec": pods}),
    },
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["", "default", "q"]),
        "schedulerName": st.sampled_from(["", "volcano"]),
        "maxRetry": counts,
        "minAvailable": counts,
        "tasks": st.lists(tasks, max_size=2),
        "plugins": st.dictionaries(
            st.sampled_from(["svc", "ssh", "mpi", "ray", "env"]), st.just([]), max_size=2
        ),
    },
)


@settings(max_examples=300, deadline=None)
@given(specs)
def test_of_no_job_that_has_something_to_fill_in_we_are_not_asked(spec: Manifest) -> None:
    manifest = {"metadata": {"name": "j"}, "spec": spec}
    if with_defaults(copy.deepcopy(manifest)) != manifest:
        assert is_asked(lacks_defaults(), manifest)


def group_of_a_job() -> Manifest:
    manifest = {"apiVersion": JOB.api_version, "kind": "Job", **complete_job()}
    manifest["metadata"] |= {"namespace": "default", "uid": "u"}
    blueprint = compile_job(manifest, "volcano", KeyPool())
    assert blueprint.job is not None
    return make_group(blueprint.job, Status(), {})


def test_only_what_our_controllers_make_for_jobs_is_taken_as_it_is() -> None:
    condition, group = not_our_controllers([OURS]), group_of_a_job()
    assert not is_asked(condition, group, user=OURS)
    assert is_asked(condition, group)
    for_a_pod = {**group, "metadata": {**group["metadata"], "ownerReferences": []}}
    assert is_asked(condition, for_a_pod, user=OURS)
    del for_a_pod["metadata"]["ownerReferences"]
    assert is_asked(condition, for_a_pod, user=OURS)
    owner = {**group["metadata"]["ownerReferences"][0], "apiVersion": "batch/v1"}
    foreign = {**group, "metadata": {**group["metadata"], "ownerReferences": [owner]}}
    assert is_asked(condition, foreign, user=OURS)


def test_without_knowing_our_controllers_every_podgroup_is_asked_about() -> None:
    def conditions(*controllers: str) -> list[Manifest]:
        made = configurations(
            authority=b"", enabled=tuple(BY_PATH), scheduler_names=("volcano",), controllers=controllers
        )
        (found,) = (m["webhooks"][0] for _, m in made if m["metadata"]["name"].endswith("podgroups-validate"))
        return list(found.get("matchConditions", ()))

    assert conditions() == []
    assert conditions(OURS) == [not_our_controllers([OURS])]

"""Changes of jobs: sizes and priority may change, the rest may not, however it is written.

What a client takes away that admission had filled in is filled in again.
"""

import copy
import json
from typing import Any

import pytest

from tests.webhooks.reviews import found, job, review
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.job.updates import check_job_update
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate


def changed(path: list[Any], value: Any) -> Manifest:
    manifest = mutate(review(JOB, job()))
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
    old = mutate(review(JOB, job()))
    complaints_found = found(review(JOB, changed(path, value), old))
    assert (refused in complaints_found) if refused else complaints_found == {}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param({"svc": []}, {"env": []}, False, id="another plugin"),
        pytest.param({"svc": []}, {"svc": [], "env": []}, False, id="one more"),
        pytest.param({"svc": []}, {}, False, id="none"),
        pytest.param({"svc": []}, None, False, id="null"),
        pytest.param({}, {"env": []}, False, id="the first"),
        pytest.param({"svc": ["--inject-hosts-env=false"]}, {"svc": []}, False, id="other arguments"),
        pytest.param({"svc": []}, {"svc": None}, True, id="no arguments, as null"),
        pytest.param({}, None, True, id="no plugins, as null"),
    ],
)
def test_the_plugins_of_a_job_stay_those_it_has(before: Any, after: Any, same: bool) -> None:
    old = mutate(review(JOB, job(plugins=before)))
    assert (found(review(JOB, job(plugins=after), old)) == {}) is same


@pytest.mark.parametrize("name", ["volcano.sh/walltime", "volcano.sh/queue-reservation-timeout"])
def test_a_time_is_validated_when_it_changes(name: str) -> None:
    old, new = mutate(review(JOB, job())), mutate(review(JOB, job()))
    assert old is not None
    assert new is not None
    new = copy.deepcopy(new)
    new["metadata"].setdefault("annotations", {})[name] = "soon"
    assert f"metadata.annotations[{name}]" in found(review(JOB, new, old))
    assert found(review(JOB, new, copy.deepcopy(new))) == {}, "an older job stays editable"


GPU = {"requests": {"nvidia.com/gpu": 1, "cpu": "1"}}


def written(replicas: int = 3, **spec: Any) -> Manifest:
    """A job as its author writes it: everything is left open that may be."""
    pod = {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "resources": copy.deepcopy(GPU)}]}
    return job({"replicas": replicas, "template": {"spec": pod}}, **spec)


def noted(manifest: Manifest, applied: Manifest) -> Manifest:
    """As `kubectl apply` leaves it: with a note of what was applied."""
    note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": note}}


def stored(
    manifest: Manifest, old: Manifest | None = None, options: AdmissionOptions | None = None
) -> Manifest:
    made = mutate(review(JOB, manifest, old, options=options))
    assert made is not None
    return made


def merged(old: Manifest, author: Manifest) -> Manifest:
    """What a merge patch makes of the stored job: lists are the author's, what he never named stays."""
    return noted({**old, "spec": {**old["spec"], **author["spec"]}}, author)


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_a_file_that_is_applied_again_is_completed_again(replicas: int) -> None:
    old = stored(noted(written(3), written(3)))
    new = merged(old, written(replicas))
    assert "name" not in new["spec"]["tasks"][0]
    assert found(review(JOB, new, old)) == {}
    assert stored(new, old) == stored(noted(written(replicas), written(replicas)))


@pytest.mark.parametrize("replicas", [2, 5])
def test_a_job_put_in_the_place_of_another_is_completed(replicas: int) -> None:
    old = stored(written(3))
    assert found(review(JOB, written(replicas), old)) == {}
    assert stored(written(replicas), old) == stored(written(replicas))


def test_changes_that_nobody_completed_are_judged_as_if_they_were() -> None:
    old = stored(noted(written(3), written(3)))
    assert list(check_job_update(review(JOB, merged(old, written(5)), old))) == []
    assert list(check_job_update(review(JOB, written(2), old))) == []
    (violation,) = check_job_update(review(JOB, merged(old, written(2)), old))
    assert "3 of 2" in violation.message  # as it would be stored
    assert list(check_job_update(review(JOB, stored(written(4)), written(3)))) == []
    (violation,) = check_job_update(review(JOB, merged(old, written(3, maxRetry=9)), old))
    assert "changed: maxRetry" in violation.message


def test_a_minimum_that_its_author_gave_stays_as_given() -> None:
    for given in (written(3, minAvailable=3), written(3, minAvailable=1)):
        old = stored(noted(given, given))
        new = merged(old, written(2, minAvailable=given["spec"]["minAvailable"]))
        assert stored(new, old)["spec"]["minAvailable"] == given["spec"]["minAvailable"]
    old = stored(noted(written(3), written(3)))
    old["spec"]["minAvailable"] = 1  # changed since, without applying
    assert stored(merged(old, written(5)), old)["spec"]["minAvailable"] == 1
    untold = stored(written(3))  # nothing says who gave what
    changed_tasks = {**untold, "spec": {**untold["spec"], "tasks": written(2)["spec"]["tasks"]}}
    assert "3 of 2" in found(review(JOB, changed_tasks, untold))["spec.minAvailable"]


@pytest.mark.parametrize(("fields", "minimum"), [({}, 5), ({"f:minAvailable": {}}, 3)])
def test_the_managers_of_fields_tell_who_gave_the_minimum(fields: Manifest, minimum: int) -> None:
    entries = [
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:tasks": {}, **fields}}},
        {"manager": "server", "operation": "Update", "fieldsV1": {"f:spec": {"f:minAvailable": {}}}},
    ]
    old = stored(written(3))
    new = {**old, "spec": {**old["spec"], **written(5)["spec"]}}
    new["metadata"] = {**new["metadata"], "managedFields": entries}
    assert stored(new, old)["spec"]["minAvailable"] == minimum


def test_a_job_keeps_its_scheduler_when_the_usual_one_is_another_by_now() -> None:
    old = stored(written())
    options = AdmissionOptions(scheduler_names=("new-scheduler", "volcano"))
    assert found(review(JOB, written(4), old, options=options)) == {}
    assert stored(written(4), old, options)["spec"]["schedulerName"] == "volcano"


@pytest.mark.parametrize(
    ("path", "value", "same"),
    [
        pytest.param(["resources", "limits", "nvidia.com/gpu"], "1", True, id="a number as text"),
        pytest.param(["resources", "requests", "cpu"], "1000m", True, id="an amount in other units"),
        pytest.param(["resources", "requests", "cpu"], "1001m", False, id="another amount"),
        pytest.param(["ports"], [], True, id="an empty list"),
        pytest.param(["command"], None, True, id="null"),
        pytest.param(["resources", "claims"], [], True, id="an empty list further down"),
        pytest.param(["securityContext"], {}, False, id="an empty object that may be a choice"),
        pytest.param(["image"], "j", False, id="another image"),
    ],
)
def test_what_is_only_written_differently_has_not_changed(path: list[str], value: Any, same: bool) -> None:
    old = stored(written())
    new = copy.deepcopy(old)
    place = new["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    new["spec"]["tasks"][0]["template"]["metadata"] = {"creationTimestamp": None}
    assert (found(review(JOB, new, old)) == {}) is same

"""The user of an object: its creator, unless the annotation names another or the creator is a controller."""

import pytest

from tests.webhooks.reviews import Objects, job, task
from volcano.kube.api.kinds import CRON_JOB, JOB, JOB_FLOW, POD, POD_GROUP, Kind
from volcano.kube.api.manifest import Key, Manifest, annotations_of
from volcano.kube.api.names import USER
from volcano.webhooks.review import AdmissionRequest
from volcano.webhooks.rules import mutate
from volcano.webhooks.users import is_component


def admitted(kind: Kind, manifest: Manifest, user: str, old: Manifest | None = None) -> Manifest:
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(operation, kind, Key("default", "x"), manifest, old, Objects(), user=user)
    result = mutate(request)
    assert result is not None
    return result


def named(**annotations: str) -> Manifest:
    return {"metadata": {"name": "x", "namespace": "default", "annotations": annotations}, "spec": {}}


@pytest.mark.parametrize("kind", [JOB, CRON_JOB, JOB_FLOW, POD_GROUP], ids=str)
def test_the_creator_becomes_the_user(kind: Kind) -> None:
    assert annotations_of(admitted(kind, named(), "jane"))[USER] == "jane"


def test_a_pod_of_our_scheduler_gets_its_creator_and_others_are_left_alone() -> None:
    ours = {**named(), "spec": {"schedulerName": "volcano"}}
    assert annotations_of(admitted(POD, ours, "jane"))[USER] == "jane"
    assert admitted(POD, named(), "jane") == named()


def test_a_user_that_is_given_stays() -> None:
    manifest = {"metadata": {"annotations": {USER: "alice"}}, "spec": {}}
    assert annotations_of(admitted(JOB, manifest, "jane"))[USER] == "alice"


def test_a_replaced_job_keeps_its_user() -> None:
    before = admitted(JOB, job(task("a")), "jane")
    assert annotations_of(admitted(JOB, job(task("a")), "bob", old=before))[USER] == "jane"


def test_an_older_job_without_a_user_does_not_get_the_one_who_changes_it() -> None:
    assert USER not in annotations_of(admitted(JOB, named(), "bob", old=named()))


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("jane", False),
        ("system:admin", False),
        ("system:serviceaccount:research:pipeline", False),
        ("system:serviceaccount:kube-system:replicaset-controller", True),
        ("system:serviceaccount:volcano-system:volcano-controllers", True),
        ("system:serviceaccount:batch:volcano-controllers", True),
        ("system:node:n1", True),
        ("system:volcano", True),
        ("system:kube-controller-manager", True),
    ],
)
def test_components_are_no_users(user: str, expected: bool) -> None:
    assert is_component(user, "batch") is expected

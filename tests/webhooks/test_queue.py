"""Queues are completed, and refused where their shares and their place in the tree make no sense."""

import pytest

from tests.webhooks.reviews import found, queue, review
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.rules import mutate


def test_a_queue_is_completed() -> None:
    notes = {"volcano.sh/hierarchy": "sci/dev", "volcano.sh/hierarchy-weights": "2/8"}
    made = mutate(review(QUEUE, {"metadata": {"name": "q", "annotations": notes}, "spec": {}}))
    assert made is not None
    assert made["spec"] == {"reclaimable": True, "weight": 1}
    assert made["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/sci/dev",
        "volcano.sh/hierarchy-weights": "1/2/8",
    }


@pytest.mark.parametrize(
    ("new", "field", "text"),
    [
        pytest.param(
            queue("q", capability={"cpu": "-1"}),
            "spec.capability[cpu]",
            "greater than or equal to 0",
            id="negative",
        ),
        pytest.param(
            queue("q", capability={"cpu": "x"}), "spec.capability[cpu]", "no quantity", id="no quantity"
        ),
        pytest.param(
            queue("q", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}),
            "spec.deserved[cpu]",
            "must be >= guarantee",
            id="guarantee above deserved",
        ),
        pytest.param(
            queue("q", deserved={"cpu": "3"}, capability={"cpu": "2"}),
            "spec.deserved[cpu]",
            "must be <= capability",
            id="deserved above capability",
        ),
        pytest.param(
            queue("q", annotations={"volcano.sh/user-shares": "alice=many"}),
            "metadata.annotations[volcano.sh/user-shares]",
            "write users with numbers of at least 0, as alice=3,bob=1",
            id="share of a user that is no number",
        ),
        pytest.param(
            queue("q", annotations={"volcano.sh/notify": "example.com"}),
            "metadata.annotations[volcano.sh/notify]",
            "write such as https://example.com/hooks/volcano",
            id="notifications to no URL",
        ),
        pytest.param(queue("q", parent="q"), "spec.parent", "itself", id="its own parent"),
        pytest.param(queue("root", parent="q"), "spec.parent", "has no parent", id="a parent of root"),
        pytest.param(queue("root", parent="root"), "spec.parent", "has no parent", id="root below itself"),
        pytest.param(queue("root", weight=3), "spec.weight", "must be 1 (it is 3)", id="a weight of root"),
        pytest.param(
            queue("default", parent="q"), "spec.parent", "must be root, not 'q'", id="default below another"
        ),
        pytest.param(queue("q", parent="ghost"), "spec.parent", "does not exist", id="no such parent"),
        pytest.param(
            queue(
                "q", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2/3"}
            ),
            "metadata.annotations[volcano.sh/hierarchy-weights]",
            "same length",
            id="weights of another length",
        ),
        pytest.param(
            queue(
                "q", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/-2"}
            ),
            "metadata.annotations[volcano.sh/hierarchy-weights]",
            "larger than 0",
            id="a negative weight",
        ),
    ],
)
def test_a_wrong_queue_is_refused(new: Manifest, field: str, text: str) -> None:
    assert text in found(review(QUEUE, new)).get(field, "")


def test_a_guarantee_needs_no_deserved_share() -> None:
    new = queue("q", guarantee={"resource": {"cpu": "16", "memory": "64Gi"}}, capability={"cpu": "64"})
    assert found(review(QUEUE, new)) == {}


def test_children_stay_within_their_parent() -> None:
    dept = queue("dept", parent="root", deserved={"cpu": "10"}, capability={"cpu": "20"})
    sibling = queue("a", parent="dept", deserved={"cpu": "7"})
    objects = {QUEUE: [queue("root"), dept, sibling]}
    assert found(review(QUEUE, queue("b", parent="dept", deserved={"cpu": "3"}), objects=objects)) == {}
    refusal = found(review(QUEUE, queue("b", parent="dept", deserved={"cpu": "4"}), objects=objects))
    assert "exceeds parent's" in refusal["spec.deserved"]
    refusal = found(review(QUEUE, queue("b", parent="dept", capability={"cpu": "30"}), objects=objects))
    assert "ancestor's capability" in refusal["spec.capability[cpu]"]
    shrunk = queue("dept", parent="root", deserved={"cpu": "5"}, capability={"cpu": "20"})
    assert "exceeds parent's" in found(review(QUEUE, shrunk, dept, objects))["spec.deserved"]


def test_the_tree_is_only_so_deep_and_has_no_cycles() -> None:
    chain = [queue("q0", parent="root"), *(queue(f"q{n}", parent=f"q{n - 1}") for n in range(1, 5))]
    objects = {QUEUE: [queue("root"), *chain]}
    assert (
        "maximum allowed depth"
        in found(review(QUEUE, queue("deep", parent="q4"), objects=objects))["spec.parent"]
    )
    turned = queue("q0", parent="q2")
    assert "cycle" in found(review(QUEUE, turned, chain[0], objects))["spec.parent"]


def test_a_queue_at_work_cannot_become_a_parent() -> None:
    group = {
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"queue": "busy"},
        "status": {"phase": "Running"},
    }
    objects = {QUEUE: [queue("busy", parent="root")], POD_GROUP: [group]}
    assert (
        "PodGroups g" in found(review(QUEUE, queue("child", parent="busy"), objects=objects))["spec.parent"]
    )


def test_the_root_queues_shares_are_protected() -> None:
    assert "spec.capability" in found(review(QUEUE, queue("root", capability={"cpu": "1"}), queue("root")))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("default", "can not be deleted", id="the default queue"),
        pytest.param("root", "can not be deleted", id="the root queue"),
        pytest.param("dept", "1 child queues: team", id="a queue with children"),
        pytest.param("team", "", id="a leaf may go"),
    ],
)
def test_which_queues_may_be_deleted(name: str, text: str) -> None:
    objects = {QUEUE: [queue("root"), queue("default"), queue("dept"), queue("team", parent="dept")]}
    complaints_found = found(review(QUEUE, None, queue(name), objects))
    assert text in complaints_found[""] if text else complaints_found == {}


def test_root_and_default_keep_their_place_in_the_tree() -> None:
    tree = {QUEUE: [queue("root"), queue("default", parent="root"), queue("q", parent="root")]}
    root, default = queue("root"), queue("default", parent="root")
    assert list(found(review(QUEUE, queue("root", parent="q"), root, tree))) == ["spec.parent"]
    assert list(found(review(QUEUE, queue("root", weight=2), root, tree))) == ["spec.weight"]
    assert list(found(review(QUEUE, queue("default", parent="q"), default, tree))) == ["spec.parent"]
    assert found(review(QUEUE, queue("default", parent="root", weight=5), default, tree)) == {}


def test_a_root_queue_from_before_these_rules_can_still_be_changed() -> None:
    old = queue("root", parent="q", weight=2)
    assert found(review(QUEUE, {**old, "metadata": {"name": "root", "labels": {"a": "b"}}}, old)) == {}
    assert found(review(QUEUE, queue("root"), old)) == {}

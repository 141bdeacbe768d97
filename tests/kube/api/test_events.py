"""Events have the fields of client-go's, and deterministic names where wanted."""

from volcano.base.clock import Instant
from volcano.kube.api.events import WARNING, event, name_after, reference_to, shortened
from volcano.kube.api.kinds import JOB

NOW = Instant(1_800_000_000.0, 5.0)
TRAIN = {"metadata": {"namespace": "team", "name": "train", "uid": "u1", "resourceVersion": "7"}}


def test_an_event_refers_to_its_object() -> None:
    made = event(
        reference_to(TRAIN, JOB),
        "train.1",
        severity=WARNING,
        reason="Failed",
        message="m",
        now=NOW,
        component="manager",
        instance="host-1",
    )
    assert made["metadata"] == {"namespace": "team", "name": "train.1"}
    assert made["involvedObject"] == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "namespace": "team",
        "name": "train",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert (made["type"], made["reason"], made["message"], made["count"]) == ("Warning", "Failed", "m", 1)
    assert made["source"] == {"component": "manager", "host": "host-1"}
    assert made["firstTimestamp"] == made["lastTimestamp"] == NOW.timestamp()


def test_events_about_cluster_scoped_objects_are_in_the_default_namespace() -> None:
    target = reference_to({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    made = event(target, "n.1", severity=WARNING, reason="r", message="m", now=NOW, component="c")
    assert made["metadata"]["namespace"] == "default"
    assert made["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n"}
    assert made["source"] == {"component": "c"}


def test_the_same_words_about_the_same_object_have_the_same_name() -> None:
    one, other = reference_to(TRAIN, JOB), {"name": "train", "uid": "u2"}
    assert name_after(one, "Failed", "m") == name_after(one, "Failed", "m")
    names = {name_after(one, "Failed", "m"), name_after(one, "Failed", "n"), name_after(other, "Failed", "m")}
    assert len(names) == 3
    assert all(name.startswith("train.") for name in names)


def test_long_messages_are_cut_where_an_event_has_no_room() -> None:
    assert shortened("x" * 1024) == "x" * 1024
    assert shortened("x" * 1025) == "x" * 1020 + " ..."

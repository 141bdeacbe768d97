"""A webhook keeps of a PodGroup what its rules ask about."""

import orjson

from volcano.cmd.podgroup_fields import slim_group


def test_name_version_queue_and_phase_are_kept_and_nothing_else() -> None:
    metadata = {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    whole = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {**metadata, "managedFields": [{"manager": "m"}]},
        "spec": {"queue": "q", "minMember": 3},
        "status": {"phase": "Running", "running": 3},
    }
    kept = {"metadata": metadata, "spec": {"queue": "q"}, "status": {"phase": "Running"}}
    assert slim_group(orjson.dumps(whole)) == kept


def test_a_group_that_says_nothing_yet_is_taken() -> None:
    kept = slim_group(b'{"metadata":{"name":"g"}}')
    assert (kept["metadata"]["name"], kept["spec"], kept["status"]) == ("g", None, None)

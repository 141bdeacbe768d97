"""Binding leaves of a pod what it need not change, and changes what it must."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from volcano.apiserver.registry.binding import bound
from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest

NOW = Instant(1_800_000_000.0, 1.0)
TEXTS = st.dictionaries(st.sampled_from("abc"), st.text(max_size=2), max_size=3)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodScheduled", "Ready", "x"]),
            "status": st.sampled_from(["True", "False"]),
        },
        optional={"reason": st.just("r"), "message": st.just("m"), "lastTransitionTime": st.just("then")},
    ),
    max_size=3,
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p")}, optional={"labels": TEXTS, "annotations": TEXTS}
        ),
        "spec": st.fixed_dictionaries({"containers": st.just([{"name": "c"}])}),
    },
    optional={
        "status": st.fixed_dictionaries(
            {"phase": st.just("Pending")},
            optional={"conditions": CONDITIONS, "nominatedNodeName": st.just("n0")},
        )
    },
)


@given(PODS, st.fixed_dictionaries({}, optional={"labels": TEXTS, "annotations": TEXTS}))
def test_a_bound_pod_is_what_changing_it_in_place_would_make_and_the_one_before_stays(
    pod: Manifest, asked: Manifest
) -> None:
    before = copy.deepcopy(pod)
    after = bound(pod, "n1", asked, NOW)
    assert pod == before
    assign(before, "n1", asked)
    assert after == before


def test_a_bound_pod_shares_what_it_has_in_common_with_the_one_before() -> None:
    pod: Manifest = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    after = bound(pod, "n1", {}, NOW)
    assert after["spec"]["containers"] is pod["spec"]["containers"]
    assert after["metadata"]["labels"] is pod["metadata"]["labels"]


def assign(pod: Manifest, node: str, asked: dict[str, Any]) -> None:
    """The same in the plainest way: field by field, in place."""
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    for field in ("annotations", "labels"):
        if asked.get(field):
            pod["metadata"].setdefault(field, {}).update(asked[field])
    conditions = status.setdefault("conditions", [])
    scheduled = next((c for c in conditions if c.get("type") == "PodScheduled"), None)
    if scheduled is None:
        scheduled = {"type": "PodScheduled", "status": ""}
        conditions.append(scheduled)
    if scheduled["status"] != "True":
        scheduled.update(status="True", lastProbeTime=None, lastTransitionTime=NOW.timestamp())
    scheduled.pop("reason", None)
    scheduled.pop("message", None)

"""nodegroup: queues are restricted to their groups of nodes."""

import json
from typing import Any

import pytest

from tests.builders import job, node, queue
from tests.scenario import schedule, session
from volcano.kube.api.manifest import Manifest

LABEL = "volcano.sh/nodegroup-name"
NODES = [*(node(f"n{i}", labels={LABEL: f"group{i}"}) for i in (1, 2, 3, 4)), node("bare")]
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def affinity(
    required: tuple[str, ...] = (),
    preferred: tuple[str, ...] = (),
    anti_required: tuple[str, ...] = (),
    anti_preferred: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {
        "nodeGroupAffinity": {REQUIRED: list(required), PREFERRED: list(preferred)},
        "nodeGroupAntiAffinity": {REQUIRED: list(anti_required), PREFERRED: list(anti_preferred)},
    }


AFFINITY = affinity(("group1", "group3"), ("group3",), ("group2", "group4"), ("group4",))


def asked(
    queues: list[Manifest], arguments: dict[str, Any] | None = None, hierarchy: bool = False
) -> tuple[Any, ...]:
    """The scores of all nodes, and the names of the feasible ones."""
    plugin = {"name": "nodegroup", "arguments": arguments or {}, "enableHierarchy": hierarchy}
    made = session(nodes=NODES, queues=queues, jobs=[job("j", 1, queue="q")], plugins=[plugin])
    task = next(iter(made.snapshot.jobs["default/j"].tasks.values()))
    names = made.nodes.names
    rejected = {
        name
        for each in made.policy.reject_nodes(task, made.nodes)
        for name, no in zip(names, each.mask, strict=True)
        if no
    }
    scores = dict(zip(names, made.policy.plugins[0].score_nodes(task, made.nodes).tolist(), strict=True))
    return scores, set(names) - rejected


def test_groups_are_scored_and_filtered_by_affinity() -> None:
    scores, passing = asked([queue("q", affinity=AFFINITY)])
    assert scores == {"n1": 100, "n2": 0, "n3": 150, "n4": -1, "bare": 0}
    assert passing == {"n1", "n3", "n4"}


@pytest.mark.parametrize(("strict", "passing"), [(True, set()), (False, {"bare"})])
def test_a_queue_without_affinity(strict: bool, passing: set[str]) -> None:
    assert asked([queue("q")], {"strict": strict})[1] == passing


def test_preferred_groups_can_be_ordered() -> None:
    scores, _ = asked(
        [queue("q", affinity=affinity(preferred=("group1", "group3")))], {"enablePreferredOrder": True}
    )
    assert (scores["n1"], scores["n3"]) == (50, 25)


def test_a_queue_inherits_the_nearest_ancestors_affinity() -> None:
    queues = [
        queue("root"),
        queue("p", parent="root", affinity=affinity(("group2",))),
        queue("q", parent="p"),
    ]
    assert asked(queues, hierarchy=True)[1] == {"n2"}
    assert asked(queues)[1] == set()


def test_a_queue_inherits_the_roots_affinity_when_no_ancestor_below_has_one() -> None:
    queues = [
        queue("root", affinity=affinity(("group3",))),
        queue("p", parent="root"),
        queue("q", parent="p"),
    ]
    assert asked(queues, hierarchy=True)[1] == {"n3"}
    assert asked([queues[0], queue("q")], hierarchy=True)[1] == {"n3"}
    assert asked([queue("q")], hierarchy=True)[1] == set()


def limited(text: str, running: int = 0) -> Any:
    notes = {"volcano.sh/nodegroup-resource-limits": text}
    return schedule(
        nodes=[node("n1", cpu=8, labels={LABEL: "group1"}), node("n2", cpu=8, labels={LABEL: "group2"})],
        queues=[queue("q", affinity=affinity(("group1", "group2")), annotations=notes)],
        jobs=[
            job("r", running, min_available=0, queue="q", on="n1", phase="Running"),
            job("w", 8, min_available=0, queue="q"),
        ],
        plugins=["gang", "predicates", "nodegroup"],
    )


def test_a_limit_caps_what_a_queue_holds_in_a_group() -> None:
    limits = json.dumps({"group1": {"cpu": "3"}, "group2": {"cpu": "2"}})
    assert limited(limits).bound_per_node() == {"n1": 3, "n2": 2}
    assert limited(limits, running=2).bound_per_node() == {"n1": 1, "n2": 2}


def test_limits_that_cannot_be_read_keep_everything_out() -> None:
    result = limited("three cpus")
    assert result.bound() == {}
    diagnosis = result.diagnosis("w")
    assert diagnosis is not None
    assert "node group resource limit annotation invalid" in diagnosis.message


def test_an_undone_placement_does_not_count_against_the_limit() -> None:
    notes = {"volcano.sh/nodegroup-resource-limits": json.dumps({"group1": {"cpu": "1"}})}
    made = session(
        nodes=[node("n1", labels={LABEL: "group1"})],
        queues=[queue("q", affinity=affinity(("group1",)), annotations=notes)],
        jobs=[job("w", 2, queue="q")],
        plugins=["nodegroup"],
    )
    first, second = made.snapshot.jobs["default/w"].tasks.values()

    def full() -> bool:
        return any(reject.mask[0] for reject in made.policy.reject_nodes_now(second, made.nodes) or ())

    with made.ledger.statement():
        made.ledger.allocate(first, 0)
        assert full()
    assert not full()

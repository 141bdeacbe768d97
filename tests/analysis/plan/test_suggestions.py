"""Every suggestion starts the job when it is applied, and nothing is suggested that does not."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.builders import START, JobManifests, job, node, pod, podgroup, priority_class, queue, resources
from tests.scenario import cluster_of, config
from tests.strategies import World, worlds
from volcano.analysis.plan import suggestions
from volcano.analysis.plan.changes import (
    AddNode,
    JobFinishes,
    MoveToQueue,
    SetPriorityClass,
    SetReplicas,
    SetRequest,
    Tolerate,
    WidenTier,
)
from volcano.analysis.plan.suggestions import Suggestion, suggest
from volcano.analysis.rerun.rerun import run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.kinds import POD
from volcano.model.node import Taint
from volcano.scheduler.engine.config import Config

ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
PLAIN, PREEMPT = config(), config(actions=ACTIONS)


def state_of(**parts: Any) -> ClusterState:
    return ClusterState(cluster_of(**parts), START, seed=1)


def suggested(
    name: str, chosen: Config = PLAIN, *, budget: int = 60, limit: int = 20, **parts: Any
) -> list[Suggestion]:
    state = state_of(**parts)
    found = suggest(state, chosen, f"default/{name}", budget=budget, limit=limit)
    for each in found:
        assert starts(run(state.changed((each.change,)), chosen), f"default/{name}"), each
    assert [each.cost for each in found] == sorted(each.cost for each in found)
    return found


def changes(found: list[Suggestion], kind: type) -> list[Any]:
    return [each.change for each in found if isinstance(each.change, kind)]


@pytest.mark.parametrize("many", [-1, 2_000])  # with -1, no number of searches is small enough
@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a failure takes minutes to become smaller
)
@given(world=worlds())
def test_every_suggestion_starts_the_job(world: World, many: int) -> None:
    state = state_of(**world.parts())
    unchanged = run(state, PREEMPT)
    for uid in state.snapshot().jobs:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(suggestions, "MANY_SEARCHES", many)
            found = suggest(state, PREEMPT, uid, budget=40, limit=10)
        assert not (found and starts(unchanged, uid))
        for each in found:
            # Evictions may go back and forth without end, so that only its start counts.
            after = state.changed((each.change,))
            others = None if each.exact else {uid, *(v.on_behalf_of for v in unchanged.victims)}
            assert starts(run(after, PREEMPT, stop_when_started=uid, evicting=others), uid), each
            assert each.exact is (many > 0)
            assert ("evictions for other jobs" in each.sentence()) is not each.exact


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_manifests_that_are_changed_as_suggested_start_the_job(world: World) -> None:
    """The changed manifests are read as new objects: the effect of each change on the state is the same."""
    state = state_of(**world.parts())
    for uid in state.snapshot().jobs:
        for each in suggest(state, PLAIN, uid, budget=20, limit=10):
            changed = edited(world, each.change)
            if changed is not None:
                assert starts(run(state_of(**changed.parts()), PLAIN), uid), each


def edited(world: World, change: Any) -> World | None:
    """The manifests of a world after a change; None for changes that are not expressed in them here."""
    name = getattr(change, "job", "").rpartition("/")[2]
    match change:
        case MoveToQueue(queue=other):
            return replace(world, jobs=tuple(_with_group(world, name, {"queue": other})))
        case SetPriorityClass(priority_class=other):
            jobs = tuple(_with_group(world, name, {"priorityClassName": other}))
            return replace(world, jobs=jobs)
        case JobFinishes():
            return replace(world, jobs=tuple(j for j in world.jobs if j.group["metadata"]["name"] != name))
        case AddNode(like=like, count=count):
            model = next(n for n in world.nodes if n["metadata"]["name"] == like)
            copies = [copy.deepcopy(model) for _ in range(count)]
            for number, each in enumerate(copies):
                each["metadata"]["name"] = f"added-{number}"
            return replace(world, nodes=(*world.nodes, *copies))
        case SetReplicas(replicas=replicas):
            return replace(world, jobs=tuple(_reduced(world, name, replicas)))
    return None


def _with_group(world: World, name: str, spec: dict[str, Any]) -> Iterator[JobManifests]:
    for each in world.jobs:
        if each.group["metadata"]["name"] == name:
            yield JobManifests({**each.group, "spec": {**each.group["spec"], **spec}}, each.pods)
        else:
            yield each


def _reduced(world: World, name: str, replicas: int) -> Iterator[JobManifests]:
    for each in world.jobs:
        if each.group["metadata"]["name"] != name:
            yield each
            continue
        spec = each.group["spec"]
        fewer = min(spec["minMember"], replicas)
        least = spec.get("minResources")
        changed = {**spec, "minMember": fewer}
        if least:
            per_pod = int(least["cpu"]) // spec["minMember"]
            changed["minResources"] = {"cpu": str(per_pod * fewer)}
        pods = sorted(each.pods, key=lambda p: "nodeName" not in p["spec"])[:replicas]
        yield JobManifests({**each.group, "spec": changed}, tuple(pods))


def test_a_job_that_starts_anyway_and_an_unknown_one_need_nothing() -> None:
    assert suggested("train", nodes=[node("n1", cpu=4)], jobs=[job("train", 2, cpu=1)]) == []
    assert suggest(state_of(nodes=[node("n1", cpu=4)]), PLAIN, "default/none") == []


def test_the_smallest_reduction_of_replicas_is_found() -> None:
    found = suggested(
        "train", nodes=[node("n1", cpu=5), node("n2", cpu=2)], jobs=[job("train", 16, cpu=1, role="worker")]
    )
    (reduced,) = changes(found, SetReplicas)
    assert (reduced.before, reduced.replicas, reduced.role) == (16, 7, "worker")
    assert reduced.sentence() == "reduce the replicas of task worker from 16 to 7"


def test_a_smaller_request_is_found() -> None:
    found = suggested("train", nodes=[node("n1", cpu=4)], jobs=[job("train", 1, cpu=8, role="worker")])
    (smaller,) = changes(found, SetRequest)
    assert (smaller.resource, smaller.amount, smaller.before) == ("cpu", 4000.0, 8000.0)
    assert smaller.sentence() == "request 4 cpu instead of 8 for each pod of task worker"


def test_an_open_queue_with_room_is_named_and_a_closed_one_is_not() -> None:
    found = suggested(
        "train",
        nodes=[node("n1", cpu=8)],
        queues=[
            queue("full", capability=resources(cpu=1)),
            queue("free"),
            queue("shut", state="Closed"),
        ],
        jobs=[job("train", 2, cpu=1, queue="full")],
    )
    assert changes(found, MoveToQueue) == [MoveToQueue("default/train", "free")]
    assert found[0].sentence() == "move it to queue free"


def test_a_queue_that_does_not_exist_leaves_only_other_queues() -> None:
    found = suggested("train", nodes=[node("n1", cpu=8)], jobs=[job("train", 2, cpu=1, queue="none")])
    assert [each.change for each in found] == [MoveToQueue("default/train", "default")]


def test_a_higher_priority_class_comes_with_its_victims() -> None:
    found = suggested(
        "train",
        PREEMPT,
        nodes=[node("n1", cpu=2)],
        jobs=[
            job("low", 2, min_available=0, cpu=1, on=["n1", "n1"], priority_class="low", preemptable=True),
            job("train", 1, cpu=1, priority_class="low"),
        ],
        others=[priority_class("low", 10), priority_class("high", 1000), priority_class("higher", 2000)],
    )
    (raised,) = [each for each in found if isinstance(each.change, SetPriorityClass)]
    assert raised.change == SetPriorityClass("default/train", "high")
    assert len(raised.victims) == 1
    assert raised.sentence() == "use priority class high (evicts 1 pod)"


def test_a_toleration_is_named_for_the_taint_that_stops_the_job() -> None:
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    found = suggested(
        "train",
        nodes=[node("n1", cpu=1), node("n2", cpu=8, taints=[taint])],
        jobs=[job("train", 1, cpu=4)],
    )
    assert found[0].change == Tolerate("default/train", Taint("team", "blue", "NoSchedule"))
    assert found[0].sentence() == "add a toleration for team=blue:NoSchedule"


def test_one_more_node_of_a_pool_that_has_room_for_the_pods() -> None:
    nodes = [node(f"small-{i}", cpu=2) for i in range(3)] + [node("large-0", cpu=8)]
    found = suggested(
        "train", nodes=nodes, jobs=[job("busy", 1, cpu=8, on=["large-0"]), job("train", 1, cpu=8)]
    )
    assert changes(found, AddNode) == [AddNode("large", "large-0", 1)]
    assert AddNode("large", "large-0", 1).sentence() == "add one more node of pool large"


def test_the_smallest_number_of_nodes_and_a_round_request_are_found() -> None:
    found = suggested("train", nodes=[node("n-0", cpu=8)], jobs=[job("train", 8, cpu=6)])
    assert changes(found, AddNode) == [AddNode("n", "n-0", 7)]
    (smaller,) = changes(found, SetRequest)
    assert smaller.amount == 1000.0


def test_a_job_whose_end_suffices_is_named_and_one_that_holds_too_little_is_not() -> None:
    found = suggested(
        "train",
        nodes=[node("n1", cpu=8)],
        jobs=[
            job("little", 1, cpu=1, on=["n1"]),
            job("much", 1, cpu=7, on=["n1"]),
            job("train", 1, cpu=6),
        ],
    )
    assert changes(found, JobFinishes) == [JobFinishes("default/much")]


def test_a_job_that_is_not_admitted_and_has_no_pods_yet_is_judged_by_its_pods_to_come() -> None:
    made = job("train", 4, cpu=1, phase="Pending", min_resources=resources(cpu=4))
    state = ClusterState(
        cluster_of(nodes=[node("n1", cpu=2)], podgroups=[made.group]),
        START,
        seed=1,
    )
    pods = tuple(state.decode(POD, orjson.dumps(manifest)) for manifest in made.pods)
    waiting = state.with_events((), {"default/train": pods})
    found = suggest(waiting, PLAIN, "default/train", budget=60)
    (reduced,) = changes(found, SetReplicas)
    assert reduced.replicas == 2
    assert starts(run(waiting.changed((reduced,)), PLAIN), "default/train")


def test_the_number_of_reruns_is_bounded() -> None:
    parts: dict[str, Any] = {"nodes": [node("n1", cpu=5)], "jobs": [job("train", 16, cpu=1)]}
    assert suggested("train", budget=0, **parts) == []
    assert len(suggested("train", limit=1, **parts)) == 1


@pytest.mark.parametrize(
    ("tier", "sentence"),
    [(3, "allow network tier 3"), (None, "let it spread over the whole network (mode soft)")],
)
def test_a_wider_tier_is_described(tier: int | None, sentence: str) -> None:
    assert WidenTier("default/train", tier).sentence() == sentence


def hypernode(name: str, tier: int, kind: str, *members: str) -> Any:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in members],
        },
    }


def test_a_wider_tier_is_found_for_a_gang_that_no_rack_can_hold() -> None:
    group = podgroup("train", min_member=4)
    group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    pods = tuple(pod(f"train-worker-{i}", group="train", cpu=1) for i in range(4))
    found = suggested(
        "train",
        config(plugins=["gang", "predicates", "network-topology-aware"]),
        nodes=[node(f"n{i}", cpu=2) for i in range(4)],
        jobs=[JobManifests(group, pods)],
        others=[
            hypernode("rack-0", 1, "Node", "n0"),
            hypernode("rack-1", 1, "Node", "n1"),
            hypernode("rack-2", 1, "Node", "n2"),
            hypernode("rack-3", 1, "Node", "n3"),
            hypernode("block-0", 2, "HyperNode", "rack-0", "rack-1"),
            hypernode("block-1", 2, "HyperNode", "rack-2", "rack-3"),
        ],
    )
    assert found[0].change == WidenTier("default/train", 2)


def test_a_suggestion_is_exact_where_no_job_has_a_lower_priority_than_one_that_waits() -> None:
    jobs = [job("full", cpu=4, on="n1"), *(job(f"w{i}", cpu=4) for i in range(3))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suggestions, "MANY_SEARCHES", 0)
        found = suggested("w0", PREEMPT, nodes=[node("n1")], jobs=jobs)
        lower = [*jobs, job("low", cpu=1, on="n2", priority_class="low")]
        nodes, classes = [node("n1"), node("n2", 1)], [priority_class("low", -5)]
        others = suggested("w0", PREEMPT, nodes=nodes, jobs=lower, others=classes)
    assert found
    assert others
    assert all(each.exact for each in found)
    assert not any(each.exact for each in others)

"""The packing experiment on a small cluster of our own."""

import numpy as np
import pytest

from tests.simulate.traces import sim_node, trace_job
from volcano.scheduler.plugins.fragmentation.demand import Request
from volcano.simulate.packing.experiment import DEMAND, Arrivals, run_policies, run_seed
from volcano.simulate.packing.nodes import PackedNodes
from volcano.simulate.packing.policies import ABLATIONS, POLICIES
from volcano.simulate.workload import TraceError, TraceJob

MIX = ((0.5, 12), (0.3, 12), (0.7, 10), (0.2, 8), (1.0, 10))


def jobs() -> list[TraceJob]:
    found = [
        trace_job(f"{share}-{i}", cpu=2, gpus=1, gpu_share=share)
        for share, count in MIX
        for i in range(count)
    ]
    found += [trace_job(f"two-{i}", cpu=4, gpus=2) for i in range(4)]
    found += [trace_job(f"t4-{i}", cpu=2, gpus=1, gpu_share=0.5, gpu_models=("T4",)) for i in range(4)]
    return found + [trace_job(f"cpu-{i}", cpu=4) for i in range(6)]


NODES = [sim_node(f"a{i}", cpu=32, gpus=4, gpu_model="A100") for i in range(6)] + [
    sim_node(f"t{i}", cpu=16, gpus=2, gpu_model="T4") for i in range(4)
]


def test_every_policy_gives_a_result_and_ours_is_not_behind() -> None:
    names = [*POLICIES, *ABLATIONS]
    results = {result.policy: result for result in run_policies(names, NODES, jobs(), "small", 4)}
    assert list(results) == names
    assert all(50 < result.at_100_percent <= result.at_end_percent <= 100 for result in results.values())
    assert results["fragmentation"].at_end_percent >= results["random"].at_end_percent
    assert results["fragmentation"].as_json().keys() >= {
        "policy", "trace", "seeds", "at_100_percent", "at_end_percent", "placements_per_s",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["fragmentation", "fgd", "random"])
def test_the_same_seed_gives_the_same_result(name: str) -> None:
    arrivals = Arrivals.of(jobs())
    assert run_seed(name, NODES, arrivals, 3)[:2] == run_seed(name, NODES, arrivals, 3)[:2]


def test_arrivals_are_drawn_until_they_ask_for_enough() -> None:
    arrivals = Arrivals.of(jobs())
    order = arrivals.order(1, 32.0)
    asked = arrivals.demand[order].cumsum()
    assert asked[-1] >= DEMAND * 32.0
    assert asked[-2] < DEMAND * 32.0 or len(order) == len(arrivals.of_pod)
    assert np.bincount(order).sum() >= len(arrivals.of_pod)


def test_requests_fit_on_cards_not_on_their_sum() -> None:
    kinds = (
        Request(1, 1, 1, 60),
        Request(1, 1, 2, 100),
        Request(1, 1, 2, 40),
        Request(1, 1, 1, 60, frozenset({"T4"})),
    )
    nodes = PackedNodes([sim_node(gpus=2, gpu_model="A100")], kinds)
    assert nodes.feasible(1).tolist() == [True]
    assert nodes.feasible(3).tolist() == [False], "another model"
    nodes.place(0, 0)
    assert nodes.feasible(1).tolist() == [False]
    assert nodes.feasible(2).tolist() == [True]
    nodes.place(0, 0)
    assert nodes.free.cards.tolist() == [[40, 40]]
    assert nodes.feasible(0).tolist() == [False], "80 percent are free, but on two cards"
    nodes.place(2, 0)
    assert nodes.free.cards.tolist() == [[0, 0]]


def test_a_trace_or_cluster_without_gpus_is_an_error() -> None:
    with pytest.raises(TraceError, match="no node has GPUs"):
        list(run_policies(["random"], [sim_node()], jobs(), "t", 1))
    with pytest.raises(TraceError, match="no pod of the trace asks for a GPU"):
        list(run_policies(["random"], NODES, [trace_job("a")], "t", 1))

"""What-if options and node failures, and their errors."""

from pathlib import Path

import pytest

from tests.simulate.traces import sim_node, trace_job, workload
from volcano.simulate.faults import NodeFault, parse_faults, rack_faults
from volcano.simulate.whatif import add_nodes, scale_arrivals, set_value
from volcano.simulate.workload import SimQueue, TraceError

NODES = (sim_node("a", gpus=8, gpu_model="A100-SXM4", labels={"rack": "rack-1"}), sim_node("b"))


def test_nodes_are_added_like_those_of_a_model_or_of_a_shape() -> None:
    more = add_nodes(NODES, "2:a100")
    assert [node.gpu_model for node in more[2:]] == ["A100-SXM4"] * 2
    assert len({node.name for node in more}) == 4
    assert add_nodes(NODES, "1:cpu=96,memory=1Ti")[2].cpu == 96
    with pytest.raises(TraceError, match="no node is or has 'h100'; GPU models are A100-SXM4"):
        add_nodes(NODES, "2:h100")
    with pytest.raises(TraceError, match="should be COUNT:KIND"):
        add_nodes(NODES, "a100")


def test_fields_of_queues_are_set() -> None:
    queues = (SimQueue("research"), SimQueue("default"))
    assert set_value(queues, "queue.research.weight=4")[0].weight == 4
    assert set_value(queues, "queue.research.capability.cpu=100")[0].capability == {"cpu": "100"}
    assert set_value(queues, "queue.default.reclaimable=false")[1].reclaimable is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queue.none.weight=4", "there is no queue 'none'; there are default, research"),
        ("queue.research.size=4", "a queue has no 'size'; choose from weight"),
        ("queue.research.weight=much", "weight must be a whole number"),
        ("weight=4", r"should be queue.NAME.FIELD=VALUE"),
        ("queue.research.capability=4", "needs a resource"),
    ],
)
def test_wrong_settings_say_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        set_value((SimQueue("research"), SimQueue("default")), text)


def test_scaled_arrivals_come_sooner() -> None:
    found = scale_arrivals(workload(trace_job("a"), trace_job("b", arrival=130)), 1.3)
    assert found.jobs[1].arrival == pytest.approx(100)
    with pytest.raises(TraceError, match="must be above 0"):
        scale_arrivals(found, 0)


def test_a_rack_fails_at_once() -> None:
    assert rack_faults("rack-1@2h+30m", NODES) == [NodeFault(7200, "a", 1800)]
    with pytest.raises(TraceError, match="no node has a label with the value 'rack-9'; racks are rack-1"):
        rack_faults("rack-9@2h", NODES)
    with pytest.raises(TraceError, match="should be RACK@TIME"):
        rack_faults("rack-1", NODES)


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    first = parse_faults("mtbf=1h,mttr=10m", NODES, 100_000, 3)
    assert first == parse_faults("mtbf=1h,mttr=10m", NODES, 100_000, 3)
    assert 20 < len(first) < 120
    assert first == sorted(first, key=lambda fault: (fault.at, fault.node))
    with pytest.raises(TraceError, match="mtbf, the mean time between failures"):
        parse_faults("mttr=1h", NODES, 10, 0)
    with pytest.raises(TraceError, match="'mttf=1h' is not known"):
        parse_faults("mttf=1h", NODES, 10, 0)


def test_faults_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "faults.csv"
    path.write_text("time,node,duration\n2h,a,30m\n")
    assert parse_faults(str(path), NODES, 10, 0) == [NodeFault(7200, "a", 1800)]
    path.write_text("time,node,duration\n2h,z,30m\n")
    with pytest.raises(TraceError, match=r"faults\.csv:2: there is no node 'z'"):
        parse_faults(str(path), NODES, 10, 0)

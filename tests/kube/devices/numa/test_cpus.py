"""CPU sets, layouts, hints and assignments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import (
    BEST_EFFORT,
    NONE,
    POLICIES,
    RESTRICTED,
    SINGLE_NUMA_NODE,
    admits,
    assign,
    best_hint,
)
from volcano.kube.devices.numa.decision import decision_text, parse_decision, take_decided
from volcano.kube.devices.numa.layout import Cpu, CpuLayout, layout_of, take


def layout(sockets: int = 2, cores: int = 4, threads: int = 2, numa_per_socket: int = 1) -> CpuLayout:
    """Sockets of equal cores. Threads are numbered as in Linux: the second threads follow all first ones."""
    located = {}
    for thread in range(threads):
        for socket in range(sockets):
            for core in range(cores):
                number = (thread * sockets + socket) * cores + core
                numa = socket * numa_per_socket + core * numa_per_socket // cores
                located[number] = Cpu(numa, socket, core)
    return layout_of(located)


def chosen(of: CpuLayout, count: int, available: str | None = None) -> str:
    free = of.cpus if available is None else cpusets.parse(available)
    return cpusets.text_of(take(of, free, count))


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("3", "3"), ("0-3,8", "0-3,8"), ("8, 1,0,2", "0-2,8")])
def test_a_cpu_set_is_shown_in_its_shortest_form(text: str, shown: str) -> None:
    assert cpusets.text_of(cpusets.parse(text)) == shown


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-99999", "1,,x", "0x1"])
def test_a_text_that_is_no_cpu_set_is_rejected_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="such as 0-3,8"):
        cpusets.parse(text)


@given(st.sets(st.integers(0, 200)))
def test_a_cpu_set_survives_its_text(numbers: set[int]) -> None:
    cpus = cpusets.of(numbers)
    assert set(cpusets.members(cpus)) == numbers
    assert cpusets.parse(cpusets.text_of(cpus)) == cpus


def test_whole_sockets_are_taken_first_then_whole_cores_then_threads() -> None:
    machine = layout()  # socket 0: 0-3 and 8-11, socket 1: 4-7 and 12-15
    assert chosen(machine, 8) == "0-3,8-11"
    assert chosen(machine, 9) == "0-4,8-11"
    assert chosen(machine, 2) == "0,8"
    assert chosen(machine, 5) == "0-2,8-9"


def test_threads_are_taken_from_cores_and_sockets_that_are_in_use_already() -> None:
    machine = layout()
    assert chosen(machine, 1, "0-7,12-15") == "0"  # of core 0 one thread is taken already
    assert chosen(machine, 1, "1-15") == "8"  # the other thread of the core in use
    assert chosen(machine, 2, "0-3,5-7,8-11,13-15") == "5,13"  # socket 1 has less left


def test_cores_of_the_same_number_in_different_sockets_are_different_cores() -> None:
    machine = layout(threads=1)  # core 0 of socket 0 is CPU 0, core 0 of socket 1 is CPU 4
    assert len(machine.cores) == 8
    assert chosen(machine, 2, "0,4-7") == "0,4"
    two = layout(sockets=2, cores=1, threads=2)
    assert chosen(two, 2, "0-1,3") == "1,3"


def test_too_few_cpus_give_none() -> None:
    assert take(layout(), cpusets.parse("0-2"), 4) == 0


def test_the_narrowest_hint_wins_and_is_preferred_if_nothing_narrower_could_ever_do() -> None:
    machine = layout(threads=1)
    first = best_hint(machine, machine.cpus, 4)
    assert first is not None
    assert (cpusets.text_of(first.cpus), first.preferred) == ("0-3", True)
    spread = best_hint(machine, cpusets.parse("0-2,4-6"), 4)
    assert spread is not None
    assert (spread.size, spread.preferred) == (2, False)
    both = best_hint(machine, machine.cpus, 6)
    assert both is not None
    assert (both.size, both.preferred) == (2, True)
    assert best_hint(machine, cpusets.parse("0-2"), 4) is None
    assert best_hint(machine, machine.cpus, 9) is None


def test_of_equal_hints_the_lowest_numa_nodes_win() -> None:
    machine = layout(sockets=4, cores=2, threads=1)
    hint = best_hint(machine, cpusets.parse("2-7"), 4)
    assert hint is not None
    assert cpusets.text_of(hint.cpus) == "2-5"


@pytest.mark.parametrize(
    ("policy", "free", "count", "cpus"),
    [
        (NONE, "0-2,4-6", 4, "0-2,4"),
        (BEST_EFFORT, "0-2,4-6", 4, "0-2,4"),
        (BEST_EFFORT, "0-1,4-7", 4, "4-7"),
        (RESTRICTED, "0-2,4-6", 4, None),
        (RESTRICTED, "0-2,4-6", 6, "0-2,4-6"),
        (SINGLE_NUMA_NODE, "0-2,4-7", 4, "4-7"),
        (SINGLE_NUMA_NODE, "0-7", 6, None),
        (BEST_EFFORT, "0-2", 4, None),
    ],
)
def test_a_policy_admits_and_places(policy: str, free: str, count: int, cpus: str | None) -> None:
    found = assign(layout(threads=1), policy, cpusets.parse(free), (count,))
    assert (cpusets.text_of(found.all_cpus) if found.admitted else None) == cpus


def test_containers_are_assigned_one_after_the_other() -> None:
    machine = layout(threads=1)
    both = assign(machine, SINGLE_NUMA_NODE, machine.cpus, (3, 0, 2))
    assert [cpusets.text_of(each) for each in both.cpus] == ["0-2", "", "4-5"]
    refused = assign(machine, SINGLE_NUMA_NODE, machine.cpus, (3, 3, 3))
    assert not refused.admitted
    assert refused.refused == 2


MACHINES = st.builds(
    layout,
    sockets=st.integers(1, 3),
    cores=st.integers(1, 4),
    threads=st.integers(1, 2),
    numa_per_socket=st.just(1),
)


@given(MACHINES, st.data())
def test_an_assignment_uses_free_cpus_once_and_obeys_its_policy(
    machine: CpuLayout, data: st.DataObject
) -> None:
    free = cpusets.of(data.draw(st.sets(st.sampled_from(list(cpusets.members(machine.cpus))))))
    requests = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    policy = data.draw(st.sampled_from(POLICIES))
    found = assign(machine, policy, free, requests)
    if not found.admitted:
        count = requests[found.refused]
        left = free.bit_count() - sum(requests[: found.refused])
        assert count > left or policy in (RESTRICTED, SINGLE_NUMA_NODE)
        return
    assert [cpus.bit_count() for cpus in found.cpus] == list(requests)
    assert sum(requests) == found.all_cpus.bit_count()  # no CPU twice
    assert not found.all_cpus & ~free
    if policy == SINGLE_NUMA_NODE:
        assert all(len(machine.numa_nodes_of(cpus)) <= 1 for cpus in found.cpus)


@given(MACHINES, st.integers(1, 24), st.data())
def test_the_best_hint_is_the_best_of_all_masks(machine: CpuLayout, count: int, data: st.DataObject) -> None:
    free = cpusets.of(data.draw(st.sets(st.sampled_from(list(cpusets.members(machine.cpus))))))
    nodes = list(machine.numa_nodes.values())
    masks = range(1, 1 << len(nodes))
    cpus_of = {m: cpusets.union(nodes[i] for i in range(len(nodes)) if m >> i & 1) for m in masks}
    smallest = min((m.bit_count() for m in masks if cpus_of[m].bit_count() >= count), default=0)
    fitting = [m for m in masks if (cpus_of[m] & free).bit_count() >= count]
    best = min(fitting, key=lambda m: (m.bit_count() != smallest, m.bit_count(), m), default=None)
    hint = best_hint(machine, free, count)
    if best is None:
        assert hint is None
    else:
        assert hint is not None
        assert (hint.cpus, hint.size, hint.preferred) == (
            cpus_of[best],
            best.bit_count(),
            best.bit_count() == smallest,
        )
        assert admits(BEST_EFFORT, hint)


def test_a_decision_names_the_cpus_of_each_numa_node() -> None:
    machine = layout(threads=1)
    text = decision_text(machine, cpusets.parse("2-5"))
    assert text == '{"numa":{"0":{"cpu":"2"},"1":{"cpu":"2"}}}'
    assert parse_decision(text) == {0: 2, 1: 2}
    assert cpusets.text_of(take_decided(machine, machine.cpus, {0: 2, 1: 2})) == "0-1,4-5"


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"numa":[]}', '{"numa":{"a":{"cpu":"1"}}}', '{"numa":{"0":1}}']
)
def test_a_text_that_is_no_decision_decides_nothing(text: str) -> None:
    assert parse_decision(text) == {}

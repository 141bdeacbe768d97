"""capacity without a tree: deserved, guarantee and capability as declared by each queue."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, podgroup, queue, resources
from tests.scenario import Result, schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.plugins.capacity import Capacity

TIER = ["priority", "gang", "conformance", "capacity", "predicates"]
A100 = "nvidia.com/a100"


def amount(cpu: Any = None, memory: Any = None, **more: Any) -> dict[str, str]:
    return resources(cpu, memory, **{A100 if name == "a100" else name: value for name, value in more.items()})


def runs(
    name: str, queue_name: str, on: str, cpu: Any = None, memory: Any = None, **more: Any
) -> JobManifests:
    """A running pod that may be evicted, unless `preemptable=False`."""
    held = {A100 if name == "a100" else name: value for name, value in more.items() if name != "preemptable"}
    return job(
        name,
        1,
        min_available=0,
        queue=queue_name,
        on=on,
        cpu=cpu,
        memory=memory,
        phase="Running",
        preemptable=more.get("preemptable", True),
        **held,
    )


def wants(name: str, queue_name: str, cpu: Any = None, memory: Any = None, **more: Any) -> JobManifests:
    requests = {A100 if key == "a100" else key: value for key, value in more.items()}
    return job(name, 1, queue=queue_name, cpu=cpu, memory=memory, **requests)


def cycle(nodes: list[Manifest], queues: list[Manifest], jobs: list[JobManifests], **more: Any) -> Result:
    actions = more.pop("actions", ("enqueue", "allocate", "reclaim"))
    return schedule(nodes=nodes, queues=queues, jobs=jobs, tiers=[TIER], actions=actions, **more)


def with_gpus(cpu: int, memory: str, gpus: int) -> Manifest:
    """A node with so many A100."""
    more: dict[str, Any] = {A100: gpus}
    return node("n1", cpu, memory, **more)


# -- limits
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "bound"),
    [
        pytest.param(amount(2, "2Gi"), 1, id="within its capability"),
        pytest.param(amount(1.5, "1.5Gi"), 0, id="beyond its capability"),
    ],
)
def test_a_queue_borrows_up_to_its_capability(limit: dict[str, str], bound: int) -> None:
    jobs = [runs("r", "q1", "n1", 1, "1Gi"), wants("w", "q1", 1, "1Gi")]
    result = cycle([node("n1", 4, "4Gi")], [queue("q1", capability=limit, deserved=amount(1, "1Gi"))], jobs)
    assert len(result.bound()) == bound


def test_only_requested_resources_count() -> None:
    """Memory is over its capability; a job that requests cpu alone is still admitted."""
    limit = amount(2, "2G")
    holds = job(
        "r", 1, cpu=1, memory="3G", queue="q1", on="n1", phase="Running", min_resources=amount(1, "3G")
    )

    def new(cpu: int, memory: str | None) -> Result:
        wanted = resources(cpu, memory)
        return cycle(
            [node("n1", 8, "8G")],
            [queue("q1", capability=limit, deserved=limit)],
            [holds, job("new", 1, cpu=cpu, memory=memory, queue="q1", phase="Pending", min_resources=wanted)],
        )

    assert list(new(1, None).bound()) == ["new-worker-0"]
    assert new(1, "1G").phase("new") == "Pending"


def test_a_closed_queue_admits_nothing() -> None:
    groups = [podgroup("pg", queue="shut", phase="Pending", min_resources=amount(1))]
    result = schedule(
        nodes=[node("n1")],
        queues=[queue("shut", state="Closed")],
        podgroups=groups,
        tiers=[TIER],
        actions=["enqueue"],
    )
    assert result.phase("pg") == "Pending"
    assert cycle([node("n1")], [queue("shut", state="Closed")], [wants("w", "shut", 1)]).bound() == {}


def test_a_guarantee_is_kept_free_for_its_queue() -> None:
    queues = [queue("q1", guarantee=amount(3)), queue("q2")]
    jobs = [job("w", 4, min_available=0, queue="q2")]
    assert len(cycle([node("n1", 4)], queues, jobs).bound()) == 1


# -- order ------------------------------------------------------------------------------------------------------


def plugin_of(queues: list[Manifest], jobs: list[JobManifests]) -> Capacity:
    made = session(nodes=[node("n1", 10, "20Gi")], queues=queues, jobs=jobs, plugins=["capacity"])
    found = made.policy.plugins[0]
    assert isinstance(found, Capacity)
    return found


@pytest.mark.parametrize(
    ("deserved", "held", "share"),
    [
        pytest.param(None, (3, "2Gi"), 1.0, id="nothing deserved"),
        pytest.param((2, "2Gi"), (3, "2Gi"), 1.5, id="over in one resource"),
        pytest.param((2, "4Gi"), (1, "3Gi"), 0.75, id="the largest part counts"),
    ],
)
def test_a_share_is_the_held_fraction_of_the_deserved_amount(
    deserved: tuple[int, str] | None, held: tuple[int, str], share: float
) -> None:
    queues = [queue("q", deserved=amount(*deserved) if deserved else None)]
    jobs = [runs("r", "q", "n1", *held), job("asks", 5, min_available=0, queue="q", cpu=1)]
    assert plugin_of(queues, jobs)._share("q") == pytest.approx(share)


def test_at_equal_shares_queues_that_deserve_anything_go_first() -> None:
    plugin = plugin_of([queue("none"), queue("some", deserved=amount(2))], [runs("r", "some", "n1", 2)])
    ordered = sorted(plugin.snapshot.queues.values(), key=plugin.queue_order)
    assert [each.name for each in ordered] == ["some", "none"]


def test_important_queues_go_before_needy_ones() -> None:
    queues = [queue("needy", deserved=amount(5)), queue("important", priority=9, deserved=amount(5))]
    plugin = plugin_of(queues, [runs("r", "important", "n1", 4)])
    ordered = sorted(plugin.snapshot.queues.values(), key=plugin.queue_order)
    assert [each.name for each in ordered] == ["important", "needy"]


# -- reclaim
# --------------------------------------------------------------------------------------------------


def test_the_excess_is_reclaimed() -> None:
    half = amount(2, "4Gi")
    result = cycle(
        [node("n1", 2, "4Gi"), node("n2", 2, "4Gi")],
        [queue("q3", deserved=half), queue("q4", deserved=half)],
        [
            runs("stays", "q3", "n1", 2, "4Gi", preemptable=False),
            runs("goes", "q3", "n2", 2, "4Gi"),
            wants("new", "q4", 2, "4Gi"),
        ],
    )
    assert result.evicted() == {"goes-worker-0"}
    assert result.nominated() == {"new-worker-0": "n2"}


def test_one_resource_within_the_deserved_share_permits_reclaiming() -> None:
    result = cycle(
        [node("n1", 2, "4Gi")],
        [
            queue("q10", deserved=amount(2, "2Gi"), capability=amount(4, "4Gi")),
            queue("q11", deserved=amount(0, 0)),
        ],
        [
            runs("own", "q10", "n1", 1, "3Gi", preemptable=False),
            runs("guest", "q11", "n1", 1, "1Gi"),
            wants("new", "q10", 1, "1Gi"),
        ],
    )
    assert result.evicted() == {"guest-worker-0"}


def test_no_resource_within_the_deserved_share_permits_no_reclaiming() -> None:
    result = cycle(
        [node("n1", 2, "2Gi")],
        [queue("q12", deserved=amount(1, "2Gi")), queue("q13")],
        [
            runs("own", "q12", "n1", 1, "1Gi"),
            runs("guest", "q13", "n1", 1, "1Gi"),
            wants("new", "q12", 1, "2Gi"),
        ],
    )
    assert result.evicted() == set()


def test_nothing_is_reclaimed_beyond_the_capability() -> None:
    result = cycle(
        [node("n1", 10)],
        [queue("q", deserved=amount(10), capability=amount(8)), queue("guest")],
        [runs("own", "q", "n1", 7), runs("g", "guest", "n1", 3), wants("new", "q", 2)],
    )
    assert result.evicted() == set()


def test_a_resource_that_is_deserved_and_not_held_is_reclaimed() -> None:
    result = cycle(
        [with_gpus(20, "20Gi", 20)],
        [
            queue("q5", deserved=amount(2, "2Gi", a100=10)),
            queue("q6", deserved=amount(2, "2Gi", a100=10)),
        ],
        [
            runs("a", "q5", "n1", 1, "1Gi", a100=10),
            runs("b", "q5", "n1", 1, "1Gi", a100=10),
            runs("full", "q6", "n1", 18, "18Gi", preemptable=False),
            wants("new", "q6", a100=10),
        ],
    )
    assert len(result.evicted()) == 1
    assert result.evicted() < {"a-worker-0", "b-worker-0"}


def test_no_pod_is_evicted_when_it_would_not_be_enough() -> None:
    result = cycle(
        [node("n1", 2, "4Gi", gpu=1)],
        [queue("owner", deserved=amount(2, gpu=1)), queue("guest")],
        [
            runs("g", "guest", "n1", gpu=1),
            runs("fixed", "guest", "n1", 2, preemptable=False),
            wants("new", "owner", 1, gpu=1),
        ],
    )
    assert result.evicted() == set()


def test_resources_a_queue_does_not_declare_do_not_count_as_excess() -> None:
    result = cycle(
        [node("n1", 4, "4Gi", gpu=1)],
        [queue("owner", deserved=amount(4, "4Gi")), queue("gpus", deserved=resources(gpu=1))],
        [runs("g", "gpus", "n1", 4, "4Gi", gpu=1), wants("new", "owner", 1, "1Gi")],
    )
    assert result.evicted() == set()


def test_a_queue_falls_below_what_it_deserves_only_for_one_that_is_served_less() -> None:
    def taken(held: int) -> set[str]:
        """Queue q deserves 3 and holds 4 in pods of 2; the owner of 4 holds some and requests more."""
        owned = [runs("own", "owner", "n1", held, preemptable=False)] if held else []
        return cycle(
            [node("n1", 4 + held)],
            [queue("q", deserved=amount(3)), queue("owner", deserved=amount(4))],
            [runs("a", "q", "n1", 2), runs("b", "q", "n1", 2), *owned, wants("new", "owner", 1)],
        ).evicted()

    assert len(taken(0)) == 1  # q is left two thirds, more than nothing
    assert len(taken(2)) == 1  # two thirds, more than a half
    assert taken(3) == set()  # two thirds, less than three quarters


def test_guarantees_and_unreclaimable_queues_are_left_alone() -> None:
    jobs = [runs("a", "q", "n1", 2), runs("b", "q", "n1", 2), wants("new", "owner", 2)]
    owner = queue("owner", deserved=amount(2))

    def taken(guest: Manifest) -> int:
        return len(cycle([node("n1", 4)], [guest, owner], jobs).evicted())

    assert taken(queue("q")) == 1
    assert taken(queue("q", guarantee=amount(3))) == 0
    assert taken(queue("q", reclaimable=False)) == 0


def test_two_queues_do_not_rob_each_other_in_turns() -> None:
    """Queue a deserves memory, b cpus; each holds too much of the other. Reclaiming would only swap the two."""
    queues = [queue("a", deserved=amount(2, "4Gi")), queue("b", deserved=amount(4, "2Gi"))]
    jobs = [
        *(runs(f"a{i}", "a", "n1", 1, "1Gi") for i in range(3)),
        *(runs(f"b{i}", "b", "n1", 1, "1Gi") for i in range(3)),
    ]
    for name in "ab":
        result = cycle([node("n1", 6, "6Gi")], queues, [*jobs, wants("new", name, 1, "1Gi")])
        assert result.evicted() == set(), name

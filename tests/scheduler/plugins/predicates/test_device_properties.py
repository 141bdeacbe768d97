"""Properties of device allocation: exclusive devices, counters that are never exceeded, exact undo, whole gangs."""

from collections import Counter
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import node
from tests.dra import DRIVER, Gang, gang, gpu_class, request, slice_of
from tests.scenario import Result, schedule, session
from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.dra.slices import device
from volcano.model.decisions import Bind, ReserveClaim
from volcano.model.status import Status
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.plugins.predicates import Predicates

NODES = ("n1", "n2", "n3")
CARDS = 2  # cards per node, each with a counter of 4 units


@st.composite
def clusters(draw: st.DrawFn) -> list[Manifest]:
    """Slices with whole devices, partitions of cards, and shared devices."""
    found: list[Manifest] = []
    for name in NODES:
        devices = [
            device(f"whole-{number}", {"numa": number % 2}) for number in range(draw(st.integers(0, 3)))
        ]
        for number in range(draw(st.integers(0, 4))):
            amount = draw(st.sampled_from(("1", "2", "4")))
            counters = [{"counterSet": f"card-{number % CARDS}", "counters": {"units": {"value": amount}}}]
            devices.append(device(f"part-{number}", {"numa": 0}, consumesCounters=counters))
        if draw(st.booleans()):
            capacity = {"memory": {"value": "4Gi"}}
            devices.append({"name": "shared", "allowMultipleAllocations": True, "capacity": capacity})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        found.append(slice_of(name, devices, pool=pool))
        counters_slice = slice_of(name, [], pool=pool)
        counters_slice["metadata"]["name"] += "-counters"
        del counters_slice["spec"]["devices"]
        counters_slice["spec"]["sharedCounters"] = [
            {"name": f"card-{number}", "counters": {"units": {"value": "4"}}} for number in range(CARDS)
        ]
        found.append(counters_slice)
    return found


requests = st.one_of(
    st.builds(lambda count: request(count=count), st.integers(1, 3)),
    st.just(request(allocationMode="All")),
    st.just(request(capacity={"requests": {"memory": "1Gi"}})),
    st.just(
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "many", "deviceClassName": "gpu", "count": 3},
                {"name": "one", "deviceClassName": "gpu"},
            ],
        }
    ),
)
constraints = st.sampled_from(({}, {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}))


@st.composite
def gangs(draw: st.DrawFn) -> list[Gang]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        replicas = draw(st.integers(1, 3))
        minimum = draw(st.integers(1, replicas))
        found.append(
            gang(f"g{number}", replicas, draw(requests), devices=draw(constraints), min_available=minimum)
        )
    return found


def facts(slices: list[Manifest], wanted: list[Gang]) -> dict[str, Any]:
    return {
        "nodes": [node(name, cpu=64) for name in NODES],
        "others": [gpu_class(), *slices, *(claim for one in wanted for claim in one.claims)],
        "pods": [pod for one in wanted for pod in one.pods],
        "podgroups": [one.group for one in wanted],
    }


def results_of(result: Result) -> list[Manifest]:
    binds = (each for each in result.decisions if isinstance(each, Bind))
    claims = (each for bind in binds for each in bind.claims)
    return [
        one
        for each in claims
        if isinstance(each, ReserveClaim) and each.allocation is not None
        for one in each.allocation["devices"]["results"]
    ]


@settings(max_examples=60)
@given(clusters(), gangs())
def test_no_device_counter_or_capacity_is_given_twice_and_gangs_are_whole(
    slices: list[Manifest], wanted: list[Gang]
) -> None:
    result = schedule(**facts(slices, wanted))
    published = {
        (each["spec"]["pool"]["name"], one["name"]): one
        for each in slices
        for one in each["spec"].get("devices", ())
    }
    taken = Counter((one["pool"], one["device"]) for one in results_of(result))
    counters: Counter[tuple[str, str]] = Counter()
    for (pool, name), times in taken.items():
        found = published[pool, name]
        assert times == 1 or found.get("allowMultipleAllocations")
        for consumption in found.get("consumesCounters", ()):
            counters[pool, consumption["counterSet"]] += int(consumption["counters"]["units"]["value"])
    assert all(amount <= 4 for amount in counters.values())
    memory: Counter[str] = Counter()
    for one in results_of(result):
        if "consumedCapacity" in one:
            memory[one["pool"]] += int(quantity.parse(one["consumedCapacity"]["memory"]))
    assert all(amount <= quantity.parse("4Gi") for amount in memory.values())
    bound = result.bound()
    for job in wanted:
        placed = sum(pod["metadata"]["name"] in bound for pod in job.pods)
        assert placed == 0 or placed >= job.group["spec"]["minMember"]


@settings(max_examples=40)
@given(clusters(), gangs(), st.randoms(use_true_random=False))
def test_undoing_placements_restores_everything(
    slices: list[Manifest], wanted: list[Gang], random: Any
) -> None:
    opened = session(plugins=["predicates"], **facts(slices, wanted))
    plugin = opened.policy.plugins[0]
    assert isinstance(plugin, Predicates)
    state, ledger = plugin.devices.state, opened.ledger
    tasks = [task for job in opened.snapshot.jobs.values() for task in job.tasks.values()]

    def picture() -> Any:
        usages = [
            (usage.taken.tolist(), dict(usage.consumed), dict(usage.counters), dict(usage.claims_of))
            for usage in (state.now, state.later)
        ]
        free = [
            state.free(request, pipelined=later).counts.tolist()
            for later in (False, True)
            for request in sorted(known, key=lambda each: each.name)
        ]
        return usages, sorted(state.held), free

    specs = {spec for task in tasks for spec in plugin.devices._unallocated(task)}
    known = {each for spec in specs for many in spec.requests for each in many}
    before = picture()
    with ledger.statement():
        placed = []
        for task in random.sample(tasks, len(tasks)):
            row = random.randrange(len(NODES))
            place = ledger.pipeline if random.random() < 0.3 else ledger.allocate
            if not isinstance(place(task, row), Rejection):
                placed.append(task)
        assert all(
            amount > Decimal(0) for usage in (state.now, state.later) for amount in usage.counters.values()
        )
        for task in placed:
            if ledger.status(task) is Status.PIPELINED and random.random() < 0.5:
                plugin.devices.evict(task)
    assert picture() == before

"""Invariants: no card above its limits, unique MIG positions, exclusive rules, exact undo; arrays equal lists."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import priority_class
from tests.scheduler.plugins.deviceshare.cards import Cards, ask, containers, gpu_node, pods, sharing
from tests.scheduler.plugins.deviceshare.test_mig import GEOMETRIES, MIG_TYPE
from volcano.kube.devices import vgpu
from volcano.model.status import Status
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.deviceshare import DeviceShare
from volcano.scheduler.plugins.deviceshare.choice import copies, pick
from volcano.scheduler.plugins.deviceshare.facts import Demand, Part
from volcano.scheduler.plugins.deviceshare.placements import FEW
from volcano.scheduler.plugins.deviceshare.single_choice import pick_one

LABELS = {"workloadType": "training"}
REQUEST = st.builds(
    ask,
    st.integers(1, 3),
    st.sampled_from((None, 100, 4000, 8000, 16000, 20000)),
    st.sampled_from((None, 10, 50, 100)),
    st.sampled_from((None, None, 25, 100)),
)
SMALL = st.builds(ask, st.integers(1, 2), st.sampled_from((100, 3000)), st.sampled_from((None, 30, 100)))
POLICY = st.sampled_from(("binpack", "spread", ""))


@st.composite
def cards(draw: st.DrawFn, name: str) -> list[vgpu.Card]:
    return [
        vgpu.Card(
            f"{name}-{i}",
            draw(st.integers(1, 4)),
            *draw(st.sampled_from(((16000, "NVIDIA-A100"), (32000, "NVIDIA-H100"), (40960, MIG_TYPE)))),
            healthy=draw(st.integers(0, 5)) > 0,
            mode=draw(st.sampled_from(("hami-core", "mig"))),
        )
        for i in range(draw(st.integers(1, 4)))
    ]


@st.composite
def jobs(draw: st.DrawFn, prefix: str, most: int = 5) -> list[Any]:
    return [
        pods(
            f"{prefix}{i}",
            draw(st.integers(1, 4)),
            spec=containers(*draw(st.lists(REQUEST, min_size=1, max_size=2))),
            annotations={vgpu.POD_GROUP_POLICY: "spread"} if draw(st.integers(0, 3)) == 0 else {},
            labels=LABELS if draw(st.integers(0, 2)) == 0 else {},
            priority_class=draw(st.sampled_from(("low", "high"))),
        )
        for i in range(draw(st.integers(1, most)))
    ]


def held(manifests: Iterable[Any]) -> list[tuple[Any, vgpu.DeviceShare]]:
    return [
        (pod, share)
        for pod in manifests
        for shares in vgpu.parse_assignment(pod["metadata"]["annotations"].get(vgpu.ASSIGNED, ""))
        for share in shares
    ]


def check(found: list[tuple[Any, vgpu.DeviceShare]], known: dict[str, vgpu.Card]) -> None:
    """No card is used beyond its limits, and rules hold."""
    by_card: dict[str, list[tuple[Any, vgpu.DeviceShare]]] = {}
    for pod, share in found:
        by_card.setdefault(vgpu.card_uuid(share.uuid), []).append((pod, share))
    for uuid, users in by_card.items():
        card = known[uuid]
        assert card.healthy
        assert sum(share.memory for _, share in users) <= card.memory
        assert sum(share.cores for _, share in users) <= 100
        assert len(users) <= card.split
        divided = [share.uuid for _, share in users if "[" in share.uuid]
        assert len(set(divided)) == len(divided)
        assert len({text.rpartition("-")[0] for text in divided}) <= 1  # one group at a time
        names = {pod["metadata"]["name"]: pod for pod, _ in users}.values()
        spreading = Counter(
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
            for pod in names
            if vgpu.POD_GROUP_POLICY in pod["metadata"]["annotations"]
        )
        assert max(spreading.values(), default=1) == 1
        if not divided:
            assert sum(pod["metadata"].get("labels", {}).items() >= LABELS.items() for pod in names) <= 1


@settings(max_examples=80, deadline=None)
@given(st.data(), POLICY)
def test_cards_are_never_used_beyond_their_limits(data: st.DataObject, policy: str) -> None:
    machines = {f"n{i}": data.draw(cards(f"n{i}")) for i in range(data.draw(st.integers(1, 3)))}
    world = Cards(
        nodes=[gpu_node(name, found) for name, found in machines.items()],
        plugins=[sharing(policy, GPUExclusiveRules=[LABELS])],
        others=[GEOMETRIES, priority_class("low", 1), priority_class("high", 9)],
        jobs=data.draw(jobs("a")),
    )
    known = {card.uuid: card for found in machines.values() for card in found}
    for step in ("b", "c", "d"):
        result = world.cycle()
        check(held(world.manifests.values()), known)
        for name in result.evicted():
            world.delete(name)
        world.add(*data.draw(jobs(step, most=2)))


def snapshot_of(plugin: DeviceShare) -> list[Any]:
    found: list[Any] = []
    for each in plugin._cards:
        later = each.now if each.later is None else each.later
        found += [each.now.cells.copy(), later.cells.copy(), sorted(each.taken)]
        found += [mark.later.copy() for _, mark in sorted(each.marks.items())]
    return found


def equal(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=False))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_an_undo_restores_all_cards(data: st.DataObject) -> None:
    machines = {f"n{i}": data.draw(cards(f"n{i}")) for i in range(2)}
    running = Cards(
        nodes=[gpu_node(name, found) for name, found in machines.items()],
        plugins=[sharing(GPUExclusiveRules=[LABELS])],
        others=[GEOMETRIES, priority_class("low", 1), priority_class("high", 9)],
        jobs=data.draw(jobs("a")),
        actions=("allocate",),
    )
    running.cycle()
    running.add(*data.draw(jobs("b")))
    made = Session(running.cluster.snapshot(running.now, 9), running.config)
    plugin = next(each for each in made.policy.plugins if isinstance(each, DeviceShare))
    tasks = [task for job in made.snapshot.jobs.values() for task in job.tasks.values()]
    waiting = [task for task in tasks if task.status is Status.PENDING]
    evictable = [task for task in tasks if task.status is Status.RUNNING]
    before = snapshot_of(plugin)
    with made.ledger.statement():
        for _ in range(data.draw(st.integers(1, 12))):
            evicts: bool = data.draw(st.booleans())
            if evictable and evicts:
                made.ledger.evict(evictable.pop(), "preempt")
            elif waiting:
                task, row = waiting.pop(), data.draw(st.integers(0, 1))
                with made.ledger.statement() as inner:
                    pipelined, kept = data.draw(st.booleans()), data.draw(st.booleans())
                    place = made.ledger.pipeline if pipelined else made.ledger.allocate
                    if place(task, row) is None and kept:
                        inner.commit()
    assert equal(before, snapshot_of(plugin))


@settings(max_examples=80, deadline=None)
@given(st.data(), POLICY)
def test_arrays_and_lists_choose_the_same_cards(data: st.DataObject, policy: str) -> None:
    rows = FEW + 1
    machines = {f"n{i}": data.draw(cards(f"n{i}")) for i in range(rows)}
    world = Cards(
        nodes=[gpu_node(name, found) for name, found in machines.items()],
        plugins=[sharing(policy)],
        others=[GEOMETRIES] if data.draw(st.booleans()) else [],
        jobs=[pods(f"p{i}", 12, **data.draw(SMALL)) for i in range(3)],
        actions=("allocate",),
    )
    world.cycle()
    made = Session(world.cluster.snapshot(world.now, 9), world.config)
    plugin = next(each for each in made.policy.plugins if isinstance(each, DeviceShare))
    (placed,) = plugin._cards
    part = st.builds(
        Part,
        st.integers(1, 3),
        st.sampled_from((100, 4000, 16000)),
        st.sampled_from((0, 0, 25)),
        st.sampled_from((0, 10, 100)),
        st.booleans(),
        st.sampled_from((0, 100)),
    )
    demand = Demand(
        tuple(data.draw(st.lists(part, min_size=1, max_size=2))), distinct=data.draw(st.booleans())
    )
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=rows * placed.table.width,
                                          max_size=rows * placed.table.width))).reshape(placed.table.shape)  # fmt: skip
    allowed &= placed.table.capacity.memory > 0
    usages = [placed.now]
    picked = pick(placed.table, usages, np.arange(rows), demand, allowed)
    for row in range(rows):
        one = pick_one(placed.table, usages, row, demand, allowed[row].tolist())
        assert (one is not None) == bool(picked.enough[row])
        if one is None:
            continue
        names = [vgpu.card_uuid(share.uuid) for shares in one.shares for share in shares]
        chosen = [machines[f"n{row}"][column].uuid for part in picked.cards for column in part[row].tolist()]
        assert names == chosen
        assert abs(one.score - picked.score[row]) < 1e-6
    if demand.single and not placed.table.has_instances:
        room = copies(placed.table, usages, np.arange(rows), demand, allowed).sum(axis=1)
        assert ((room > 0) == picked.enough).all()


def test_a_run_is_placed_as_one_by_one() -> None:
    def placed(min_available: int) -> list[str]:
        nodes = [
            gpu_node(f"n{i}", [vgpu.Card(f"n{i}-{c}", 10, 16000, "A") for c in range(2)]) for i in range(4)
        ]
        world = Cards(
            nodes=nodes,
            plugins=[sharing()],
            jobs=[pods("p", 30, min_available=min_available, **ask(1, 3000))],
        )
        result = world.cycle()
        return [result.bound()[f"p-worker-{i}"] for i in range(30)]

    assert placed(30) == placed(1)

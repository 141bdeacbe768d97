"""Cycles are repeated only where the result can differ."""

from tests.builders import node, pod, podgroup
from tests.scheduler.test_loop import bench
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key


async def test_a_cycle_that_decided_nothing_is_not_repeated_while_nothing_changes() -> None:
    async with bench() as b:
        waiting = pod("p", cpu=64, group="g")
        await b.add(node("n", cpu=4), podgroup("g"), waiting)
        await b.pass_time(5)
        cycles = b.scheduler.cycles.count
        await b.pass_time(8)
        assert b.scheduler.cycles.count <= cycles + 1  # checked again after ten periods
        await b.add(node("large", cpu=96))

        async def bound() -> bool:
            return bool((await b.client.get(kinds.POD, Key("default", "p")))["spec"].get("nodeName"))

        await b.until(bound)


async def test_cycles_are_repeated_where_decisions_depend_on_time() -> None:
    text = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: sla"
    async with bench(text) as b:
        await b.add(node("n", cpu=4), podgroup("g"), pod("p", cpu=64, group="g"))
        await b.pass_time(5)
        cycles = b.scheduler.cycles.count
        await b.pass_time(5)
        assert b.scheduler.cycles.count >= cycles + 4

"""Cycles are run when something changes, or when what is remembered is due."""

from tests.builders import job, node
from tests.scheduler.test_loop import bench


async def test_a_plugin_that_only_remembers_something_needs_no_cycles() -> None:
    conf = """
actions: "enqueue, allocate, shuffle"
tiers:
- plugins:
  - {name: gang}
  - {name: tdm, arguments: {tdm.revocable-zone.rz1: "08:00-20:00"}}
"""
    async with bench(conf) as b:
        await b.add(node("n1"), job("j", 1, phase="Inqueue"))

        async def remembered() -> bool:
            placed = await b.nodes_of("j-worker-0") == ["n1"]
            return placed and "tdm" in b.scheduler.cycles.last_outcome.memory and not b.scheduler.cluster.busy

        await b.until(remembered)
        await b.pass_time(1)
        before = b.scheduler.cycles.count
        await b.pass_time(5)
        assert b.scheduler.cycles.count == before

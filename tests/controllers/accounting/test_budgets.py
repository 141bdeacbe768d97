"""Budgets: an event and a condition at 80 % and 100 %, both gone in the next period."""

from collections.abc import Mapping
from typing import ClassVar

from tests.cluster import SmallCluster
from volcano.clock import Instant
from volcano.controllers.accounting.budgets import BudgetController
from volcano.kube.controller import Plan
from volcano.kube.kinds import EVENT, QUEUE
from volcano.kube.manifest import Manifest

HOUR = 3600.0
Usage = dict[tuple[str, str], float]


class Readings:
    """Usage that a test sets."""

    def __init__(self) -> None:
        self.usage: Usage | None = {}

    def of(self, period: str, now: float) -> Mapping[tuple[str, str], float] | None:
        return self.usage


async def conditions(cluster: SmallCluster, name: str = "research") -> dict[str, str]:
    found = ((await cluster.get(QUEUE, name)).get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition["status"] for condition in found}


async def reasons(cluster: SmallCluster) -> list[str]:
    return sorted(event["reason"] for event in await cluster.all(EVENT))


async def create(cluster: SmallCluster, name: str, budget: str = "", parent: str = "") -> Manifest:
    annotations = {"volcano.sh/budget": budget} if budget else {}
    spec = {"weight": 1, **({"parent": parent} if parent else {})}
    return await cluster.create(QUEUE, name, metadata={"annotations": annotations}, spec=spec)


async def test_80_and_100_percent_are_reported_once_and_end_with_the_period() -> None:
    readings = Readings()
    async with SmallCluster(BudgetController(readings.of)) as cluster:
        await create(cluster, "research", "nvidia.com/gpu=100h/month")
        await cluster.pass_time(20)
        assert await conditions(cluster) == {}
        readings.usage = {("research", "nvidia.com/gpu"): 80 * HOUR}
        await cluster.pass_time(20)
        assert await conditions(cluster) == {"BudgetWarning": "True", "BudgetExhausted": "False"}
        assert await reasons(cluster) == ["BudgetWarning"]
        readings.usage = {("research", "nvidia.com/gpu"): 101 * HOUR}
        await cluster.pass_time(60)
        assert await conditions(cluster) == {"BudgetWarning": "True", "BudgetExhausted": "True"}
        assert await reasons(cluster) == ["BudgetExhausted", "BudgetWarning"]
        (message,) = [e["message"] for e in await cluster.all(EVENT) if e["reason"] == "BudgetExhausted"]
        assert message == (
            "the budget nvidia.com/gpu=100h/month is used up; a new period begins 2027-02-01T00:00:00Z"
        )
        version = (await cluster.get(QUEUE, "research"))["metadata"]["resourceVersion"]
        readings.usage = {("research", "nvidia.com/gpu"): 150 * HOUR}
        await cluster.pass_time(60)
        assert (await cluster.get(QUEUE, "research"))["metadata"]["resourceVersion"] == version
        readings.usage = {}
        await cluster.pass_time(20)
        assert await conditions(cluster) == {"BudgetWarning": "False", "BudgetExhausted": "False"}


async def test_the_usage_of_descendants_counts() -> None:
    readings = Readings()
    readings.usage = {("vision", "cpu"): 6 * HOUR, ("speech", "cpu"): 5 * HOUR, ("other", "cpu"): 99 * HOUR}
    async with SmallCluster(BudgetController(readings.of)) as cluster:
        await create(cluster, "research", "cpu=10h/day")
        await create(cluster, "vision", parent="research")
        await create(cluster, "speech", "cpu=6h/day", parent="vision")
        await cluster.pass_time(20)
        assert (await conditions(cluster))["BudgetExhausted"] == "True"
        assert await conditions(cluster, "speech") == {"BudgetWarning": "True", "BudgetExhausted": "False"}


async def test_nothing_is_said_while_the_usage_is_not_known() -> None:
    readings = Readings()
    readings.usage = None
    async with SmallCluster(BudgetController(readings.of)) as cluster:
        await create(cluster, "research", "cpu=10h/day")
        await cluster.pass_time(30)
        assert await conditions(cluster) == {}
        readings.usage = {("research", "cpu"): 10 * HOUR}
        await cluster.pass_time(30)
        assert (await conditions(cluster))["BudgetExhausted"] == "True"


async def test_without_the_annotation_the_conditions_are_removed() -> None:
    readings = Readings()
    readings.usage = {("research", "cpu"): 10 * HOUR}
    async with SmallCluster(BudgetController(readings.of)) as cluster:
        await create(cluster, "research", "cpu=10h/day")
        await cluster.pass_time(20)
        await cluster.patch(QUEUE, "research", {"metadata": {"annotations": {"volcano.sh/budget": None}}})
        await cluster.pass_time(20)
        assert await conditions(cluster) == {}


async def test_queues_without_a_budget_are_not_looked_at() -> None:
    class Counting(BudgetController):
        looked_at: ClassVar[list[str]] = []

        def reconcile(self, name: str, now: Instant) -> Plan:
            self.looked_at.append(name)
            return super().reconcile(name, now)

    async with SmallCluster(Counting(Readings().of)) as cluster:
        await create(cluster, "free")
        await cluster.patch(QUEUE, "free", {"status": {"running": 3}}, "status")
        assert Counting.looked_at == []
        await cluster.patch(QUEUE, "free", {"metadata": {"annotations": {"volcano.sh/budget": "cpu=1h/day"}}})
        assert Counting.looked_at == ["free"]

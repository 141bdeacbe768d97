"""The status of disruption budgets."""

from tests.apiserver.registry.test_eviction import budgeted, evict, ready, running
from tests.controllers.kubernetes.driver import Driver
from volcano.controllers.kubernetes.disruption import DisruptionController
from volcano.kube.api.kinds import POD_DISRUPTION_BUDGET
from volcano.kube.api.manifest import Key


async def test_the_status_of_a_budget_follows_its_pods() -> None:
    client = await ready()
    controller = Driver(DisruptionController(), client)
    await budgeted(client, minAvailable=1)

    async def standing() -> tuple[int, int, int, int, str]:
        await controller.run()
        status = (await client.get(POD_DISRUPTION_BUDGET, Key("default", "keep")))["status"]
        (condition,) = status["conditions"]
        assert status["observedGeneration"] == 1
        return (
            status["expectedPods"],
            status["desiredHealthy"],
            status["currentHealthy"],
            status["disruptionsAllowed"],
            condition["reason"],
        )

    assert await standing() == (0, 1, 0, 0, "InsufficientPods")
    await running(client, "a")
    await running(client, "b")
    assert await standing() == (2, 1, 2, 1, "SufficientPods")
    await evict(client, "a")
    assert await standing() == (2, 1, 1, 0, "InsufficientPods")
    before = client._registry.store.version
    await running(client, "c")
    await standing()
    assert controller.controller.next_due() is None
    assert client._registry.store.version == before + 3

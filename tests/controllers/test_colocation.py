"""Pods get the memory limits of the newest configuration that selects them."""

from typing import Any

from tests.cluster import SmallCluster
from volcano.controllers.colocation import CONFIG, CONFIG_NAME, ColocationController
from volcano.kube.api.kinds import COLOCATION_CONFIGURATION, POD
from volcano.kube.api.manifest import annotations_of


async def pod(cluster: SmallCluster, name: str, **labels: str) -> None:
    containers = [{"name": "main", "image": "none"}]
    await cluster.create(POD, name, metadata={"labels": labels}, spec={"containers": containers})


async def configuration(cluster: SmallCluster, name: str, selector: Any, high: int) -> None:
    spec: dict[str, Any] = {"memoryQos": {"highRatio": high}}
    if selector is not None:
        spec["selector"] = selector
    await cluster.create(COLOCATION_CONFIGURATION, name, spec=spec)


async def written(cluster: SmallCluster, name: str) -> tuple[str | None, str | None]:
    found = annotations_of(await cluster.get(POD, name))
    return found.get(CONFIG_NAME), found.get(CONFIG)


WEB = {"matchLabels": {"app": "web"}}


async def test_the_newest_configuration_that_selects_a_pod_is_written_to_it() -> None:
    async with SmallCluster(ColocationController()) as cluster:
        await pod(cluster, "before", app="web")
        await configuration(cluster, "first", WEB, 90)
        await pod(cluster, "after", app="web")
        await pod(cluster, "other", app="db")
        limits = '{"highRatio":90,"lowRatio":0,"minRatio":0}'
        for name in ("before", "after"):
            assert await written(cluster, name) == ("first", limits)
        assert await written(cluster, "other") == (None, None)
        cluster.clock.advance(5)
        await configuration(cluster, "second", {}, 80)
        assert await written(cluster, "before") == ("second", limits.replace("90", "80"))
        assert (await written(cluster, "other"))[0] == "second", "an empty selector selects all"


async def test_a_configuration_without_a_selector_selects_nothing() -> None:
    async with SmallCluster(ColocationController()) as cluster:
        await pod(cluster, "p", app="web")
        await configuration(cluster, "none", None, 90)
        assert await written(cluster, "p") == (None, None)


async def test_what_no_longer_applies_is_removed() -> None:
    async with SmallCluster(ColocationController()) as cluster:
        await pod(cluster, "p", app="web")
        await configuration(cluster, "first", WEB, 90)
        selector = {"spec": {"selector": {"matchLabels": {"app": "db"}}}}
        await cluster.patch(COLOCATION_CONFIGURATION, "first", selector)
        assert await written(cluster, "p") == (None, "{}")
        await cluster.patch(POD, "p", {"metadata": {"labels": {"app": "db"}}})
        assert (await written(cluster, "p"))[0] == "first", "its labels changed"
        await cluster.delete(COLOCATION_CONFIGURATION, "first")
        assert await written(cluster, "p") == (None, "{}")


async def test_an_equal_configuration_is_not_written_again() -> None:
    async with SmallCluster(ColocationController()) as cluster:
        await pod(cluster, "p", app="web")
        await configuration(cluster, "first", WEB, 90)
        before = (await cluster.get(POD, "p"))["metadata"]["resourceVersion"]
        await cluster.patch(COLOCATION_CONFIGURATION, "first", {"metadata": {"labels": {"a": "b"}}})
        assert (await cluster.get(POD, "p"))["metadata"]["resourceVersion"] == before


async def test_pods_are_watched_only_while_there_is_a_configuration() -> None:
    controller = ColocationController()
    async with SmallCluster(controller) as cluster:
        await pod(cluster, "p", app="web")
        assert _watched(controller) == {"ColocationConfiguration"}
        assert controller.indexer.count(POD) == 0
        await configuration(cluster, "first", WEB, 90)
        assert _watched(controller) == {"ColocationConfiguration", "Pod"}
        assert (await written(cluster, "p"))[0] == "first"
        await cluster.delete(COLOCATION_CONFIGURATION, "first")
        assert await written(cluster, "p") == (None, "{}")
        await pod(cluster, "q", app="web")
        assert _watched(controller) == {"ColocationConfiguration"}
        await configuration(cluster, "second", WEB, 80)
        assert (await written(cluster, "q"))[0] == "second", "watched again"


async def test_what_a_configuration_wrote_is_removed_if_it_was_deleted_while_the_controller_was_down() -> (
    None
):
    async with SmallCluster() as cluster:
        await pod(cluster, "p", app="web")
        await cluster.patch(POD, "p", {"metadata": {"annotations": {CONFIG_NAME: "gone", CONFIG: "{}"}}})
        controller = ColocationController()
        cluster.start(controller)
        await cluster.rest()
        assert await written(cluster, "p") == (None, "{}")
        await pod(cluster, "q", app="web")
        assert _watched(controller) == {"ColocationConfiguration"}


def _watched(controller: ColocationController) -> set[str]:
    return {watch.kind.kind for watch in controller.watches}

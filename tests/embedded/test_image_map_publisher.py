"""What `volcano up` writes into the image map, at its start and while it runs."""

from pathlib import Path

from tests.cluster import SmallCluster
from volcano.embedded.image_map import CONFIG_MAP_NAME, ImageMapPublisher, ImageOptions
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.nodes.image_map import as_yaml, parse
from volcano.nodes.image_mapping import ImageMapping

OWN = "images: [{image: own}]"


async def publish(it: SmallCluster, options: ImageOptions) -> Manifest:
    await ImageMapPublisher(options, it.client, it.clock).publish()
    return await it.client.get(CONFIG_MAP, Key(SYSTEM_NAMESPACE, CONFIG_MAP_NAME))


async def system_namespace(it: SmallCluster) -> None:
    await it.client.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    )


async def test_a_start_without_a_map_keeps_the_users_and_renews_the_frameworks(tmp_path: Path) -> None:
    framework = tmp_path / "images.yaml"
    framework.write_text(as_yaml([ImageMapping("ray:*")]))
    async with SmallCluster() as it:
        await system_namespace(it)
        first = await publish(it, ImageOptions(OWN, lambda: [framework]))
        assert first["data"]["images.yaml"] == OWN
        assert parse(first["data"]["frameworks.yaml"], "m") == (ImageMapping("ray:*"),)
        second = await publish(it, ImageOptions(None))
        assert second["data"] == {"images.yaml": OWN, "frameworks.yaml": "images: []\n"}
        third = await publish(it, ImageOptions(""))
        assert third["data"]["images.yaml"] == ""


async def test_a_start_that_changes_nothing_writes_nothing() -> None:
    async with SmallCluster() as it:
        await system_namespace(it)
        versions = {(await publish(it, ImageOptions(OWN)))["metadata"]["resourceVersion"] for _ in range(3)}
        assert len(versions) == 1


async def test_a_broken_file_of_one_framework_does_not_hide_the_others(tmp_path: Path) -> None:
    good, bad, missing = (tmp_path / name for name in ("good", "bad", "missing"))
    good.write_text(as_yaml([ImageMapping("ray:*")]))
    bad.write_text("images: 7")
    async with SmallCluster() as it:
        await system_namespace(it)
        made = await publish(it, ImageOptions(None, lambda: [bad, missing, good]))
        assert parse(made["data"]["frameworks.yaml"], "m") == (ImageMapping("ray:*"),)

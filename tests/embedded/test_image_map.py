"""The image map of a cluster: real pods of mapped images, edits, and frameworks installed meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from tests.embedded.pods import PodCluster, pod_cluster, until
from volcano.embedded.image_map import CONFIG_MAP_NAME, ImageOptions
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Options, PatchType
from volcano.nodes.image_map import as_yaml
from volcano.nodes.image_mapping import ImageMapping

pytestmark = pytest.mark.slow
KEY = Key(SYSTEM_NAMESPACE, CONFIG_MAP_NAME)
SCRIPT = """#!/bin/sh
echo "$GREETING $*"
cat {directory}/data
touch {directory}/new 2>/dev/null && echo writable || echo read-only
"""


def greeter(directory: Path, greeting: str = "hello") -> ImageMapping:
    """An image whose entry point is a script."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    (directory / "data").write_text("data of the image\n")
    program = directory / "greet"
    program.write_text(SCRIPT.format(directory=directory))
    program.chmod(0o755)
    return ImageMapping("example/greeter:*", (str(directory),), (str(program),), {"GREETING": greeting})


def edited(mapping: ImageMapping, greeting: str) -> str:
    return as_yaml([ImageMapping(mapping.pattern, mapping.paths, mapping.entrypoint, {"GREETING": greeting})])


async def output(it: PodCluster, name: str, **fields: Any) -> list[str]:
    """Lines that a pod of the image prints, given only args."""
    main: Manifest = {"name": "main", "image": "example/greeter:1", "args": ["you"], **fields}
    spec = {"containers": [main], "restartPolicy": "Never", "nodeName": "local-0"}
    made = await it.create(POD, name, spec=spec)

    async def over() -> bool:
        status = (await it.client.get(POD, Key("default", name)))["status"]
        return status["phase"] in ("Succeeded", "Failed")

    await until(over, f"pod {name} does not end")
    nodes = it.cluster.local_nodes
    assert nodes is not None
    log = nodes.pods / made["metadata"]["uid"] / "containers" / "main" / "0.log"
    return [line.split(" ", 3)[3] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("runtime", ["netns", "userns", "plain"])
async def test_a_pod_with_args_runs_the_entry_point_of_its_mapped_image(runtime: str, tmp_path: Path) -> None:
    text = as_yaml([greeter(tmp_path / "image")])
    async with pod_cluster(tmp_path / "c", runtime, images=ImageOptions(text)) as it:
        lines = await output(it, "greeter")
        assert lines[:2] == ["hello you", "data of the image"]
        if runtime != "plain":  # which has no mounts: the files are the host's own
            assert lines[2:] == ["read-only"]


async def test_edits_take_effect_for_new_pods_and_invalid_ones_are_reported(tmp_path: Path) -> None:
    mapping = greeter(tmp_path / "image")
    options = Options(patch_type=PatchType.MERGE)
    images = ImageOptions(as_yaml([mapping]))
    async with pod_cluster(tmp_path / "c", images=images) as it:
        assert (await output(it, "first"))[0] == "hello you"
        good = {"data": {"images.yaml": edited(mapping, "goodbye")}}
        await it.client.patch(CONFIG_MAP, KEY, good, options=options)
        assert (await output(it, "second"))[0] == "goodbye you"
        bad = {"data": {"images.yaml": "images: [{image: a, zzz: 1}]"}}
        await it.client.patch(CONFIG_MAP, KEY, bad, options=options)
        assert (await output(it, "third"))[0] == "goodbye you"

        async def reported() -> list[str]:
            listed = await it.client.list(EVENT)
            return [each["message"] for each in listed.items if each["reason"] == "InvalidImageMap"]

        (message,) = await until(reported, "no event about the invalid map")
        assert message.startswith(
            "ConfigMap volcano-system/volcano-image-map, images.yaml: images[0]: unknown key 'zzz'"
        )


async def test_frameworks_installed_while_a_cluster_runs_are_used(tmp_path: Path) -> None:
    files: list[Path] = []
    async with pod_cluster(tmp_path / "c", images=ImageOptions(files=lambda: list(files))) as it:
        path = tmp_path / "images.yaml"
        path.write_text(as_yaml([greeter(tmp_path / "image")]))
        files.append(path)

        async def published() -> bool:
            data = (await it.client.get(CONFIG_MAP, KEY))["data"]
            return "example/greeter" in data["frameworks.yaml"]

        await until(published, "the framework is not published")
        assert (await output(it, "greeter"))[0] == "hello you"
        own = {"data": {"images.yaml": edited(greeter(tmp_path / "image"), "mine")}}
        await it.client.patch(CONFIG_MAP, KEY, own, options=Options(patch_type=PatchType.MERGE))
        assert (await output(it, "own"))[0] == "mine you"

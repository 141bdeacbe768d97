"""Admitted gangs whose pods are created late still start, although another job could use the whole cluster."""

from collections import Counter
from pathlib import Path

from tests.builders import pod, podgroup
from tests.embedded.test_cluster import cluster, everything, gang, until
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import GROUP_NAME

LATE = ("second", "third")


def submitted(manifest: Manifest) -> Manifest:
    """A manifest as a user submits it."""
    kept = {
        key: manifest["metadata"][key]
        for key in ("name", "namespace", "annotations")
        if key in manifest["metadata"]
    }
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": kept}


async def test_an_elastic_job_leaves_admitted_gangs_their_minimum(tmp_path: Path) -> None:
    """On 16 cpus, a job of 16 pods that starts with two, and two gangs of two whose pods follow later."""
    async with cluster(tmp_path, nodes="cpu=16,count=1", sim_duration=600.0) as running:
        client = running.client
        for name in LATE:
            group = podgroup(name, min_member=2, min_resources={"cpu": "2"})
            await client.create(POD_GROUP, submitted(group))

        async def admitted() -> bool:
            groups = [await client.get(POD_GROUP, Key("default", name)) for name in LATE]
            return all((group.get("status") or {}).get("phase") == "Inqueue" for group in groups)

        async def placed() -> Counter[str]:
            pods = await everything(client, POD, namespace="default")
            return Counter(
                each["metadata"]["annotations"][GROUP_NAME].split("-")[0]
                for each in pods
                if each["spec"].get("nodeName")
            )

        await until(admitted)
        await client.create(JOB, gang("first", 16, minAvailable=2))

        async def first_runs() -> bool:
            return (await placed())["first"] >= 12

        await until(first_runs)
        for name in LATE:
            for i in range(2):
                await client.create(POD, submitted(pod(f"{name}-{i}", group=name)))

        async def all_run() -> bool:
            return await placed() == {"first": 12, "second": 2, "third": 2}

        await until(all_run)

"""The configuration of the scheduler is found in the cluster, or the default one is used with a reason."""

import asyncio

from tests.cluster import SmallCluster
from volcano.analysis.rerun.live_config import LiveConfig, read_config, read_options
from volcano.kube.api import names
from volcano.kube.api.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, NODE
from volcano.scheduler.engine.config import PRESETS, shipped

PREEMPT = shipped(PRESETS["preempt"])


async def read(
    text: str | None, *, release: str = "volcano", namespace: str = "volcano-system"
) -> LiveConfig:
    """What is read where a release of the chart has this name and namespace."""
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, namespace)
        name = f"{release}-scheduler-configmap"
        if text is not None:
            data = {names.SCHEDULER_CONFIG_KEY: text} if text else {}
            await cluster.create(CONFIG_MAP, name, namespace=namespace, data=data)
        labels = {"app": "volcano-scheduler"}
        pod = {
            "containers": [{"name": "main", "image": "volcano"}],
            "volumes": [{"name": "scheduler-config", "configMap": {"name": name}}],
        }
        await cluster.create(
            DEPLOYMENT,
            f"{release}-scheduler",
            namespace=namespace,
            metadata={"labels": labels},
            spec={
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        )
        return await read_config(cluster.client)


def test_the_config_map_of_the_scheduler_is_read() -> None:
    found = asyncio.run(read(PREEMPT))
    assert (found.config.text, found.note) == (PREEMPT, "")


def test_a_release_of_any_name_in_any_namespace_is_found() -> None:
    found = asyncio.run(read(PREEMPT, release="batch", namespace="infra"))
    assert (found.config.text, found.note) == (PREEMPT, "")


def test_the_default_is_used_with_a_reason() -> None:
    key = "volcano-system/volcano-scheduler-configmap"
    for text, reason in (
        (None, f"there is no ConfigMap {key}"),
        ("", f"the ConfigMap {key} has no key volcano-scheduler.conf"),
        ("actions: alocate\n", "the configuration of the scheduler is invalid: "),
    ):
        found = asyncio.run(read(text))
        assert found.note.startswith(reason)
        assert found.note.endswith("; the default configuration is used")
        assert found.config.text == shipped()


def test_the_scheduler_of_a_local_cluster_serves_pods_of_the_default_scheduler() -> None:
    async def served(node: str) -> bool:
        async with SmallCluster() as cluster:
            await cluster.create(NODE, node)
            return (await read_options(cluster.client)).serve_default

    assert asyncio.run(served(names.LOCAL_CONTROL_PLANE_NODE))
    assert not asyncio.run(served("n1"))

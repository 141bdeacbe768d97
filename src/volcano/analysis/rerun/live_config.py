"""Options and configuration of the scheduler that runs in a cluster, as far as the cluster tells."""

from dataclasses import dataclass

from volcano.kube.api import names
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, DEPLOYMENT, NODE
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Client, Query
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.scheduler.options import SchedulerOptions

SCHEDULER_LABELS = "app=volcano-scheduler"
CONFIG_MAP_SUFFIX = "-scheduler-configmap"
CONFIG_MAP_KEY = Key(names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG_MAP)


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """The configuration to run with; `note` says why it may not be the one of the scheduler, "" when it is."""

    config: Config
    note: str = ""


async def read_config(client: Client) -> LiveConfig:
    """The configuration in the scheduler's ConfigMap; the default one when it cannot be read."""
    key = CONFIG_MAP_KEY
    try:
        try:
            found = await client.get(CONFIG_MAP, key)
        except NotFound:
            key = await _mounted(client) or key
            found = await client.get(CONFIG_MAP, key)
    except NotFound:
        return _default(f"there is no ConfigMap {key}")
    except ApiError as error:
        return _default(f"the ConfigMap {key} cannot be read: {error.message}")
    text = (found.get("data") or {}).get(names.SCHEDULER_CONFIG_KEY)
    if text is None:
        return _default(f"the ConfigMap {key} has no key {names.SCHEDULER_CONFIG_KEY}")
    try:
        return LiveConfig(parse(text, f"ConfigMap {key}"))
    except ConfigError as error:
        return _default(f"the configuration of the scheduler is invalid: {error}")


async def _mounted(client: Client) -> Key | None:
    """The ConfigMap that the scheduler's Deployment mounts: releases of the chart may have any name and namespace."""
    try:
        deployments = (await client.list(DEPLOYMENT, Query(labels=SCHEDULER_LABELS))).items
    except ApiError:
        return None
    for deployment in deployments:
        pod = deployment["spec"]["template"].get("spec") or {}
        for volume in pod.get("volumes") or ():
            name = (volume.get("configMap") or {}).get("name", "")
            if name.endswith(CONFIG_MAP_SUFFIX):
                return Key(deployment["metadata"]["namespace"], name)
    return None


async def read_options(client: Client) -> SchedulerOptions:
    """Options of the scheduler: that of `volcano up` also places the pods of Kubernetes' default scheduler."""
    try:
        await client.get(NODE, Key("", names.LOCAL_CONTROL_PLANE_NODE))
    except ApiError:
        return SchedulerOptions()
    return SchedulerOptions(serve_default=True)


def _default(why: str) -> LiveConfig:
    return LiveConfig(parse(shipped(), "default"), f"{why}; the default configuration is used")

"""Options and configuration of the scheduler that runs in a cluster, as far as the cluster tells."""

from dataclasses import dataclass

from volcano.kube import names
from volcano.kube.client import Client
from volcano.kube.errors import ApiError, NotFound
from volcano.kube.kinds import CONFIG_MAP, NODE
from volcano.kube.manifest import Key
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.scheduler.options import SchedulerOptions

CONFIG_MAP_KEY = Key(names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG_MAP)


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """The configuration to run with; `note` says why it may not be the one of the scheduler, "" when it is."""

    config: Config
    note: str = ""


async def read_config(client: Client) -> LiveConfig:
    """The configuration in the scheduler's ConfigMap; the default one when it cannot be read."""
    try:
        found = await client.get(CONFIG_MAP, CONFIG_MAP_KEY)
    except NotFound:
        return _default(f"there is no ConfigMap {CONFIG_MAP_KEY}")
    except ApiError as error:
        return _default(f"the ConfigMap {CONFIG_MAP_KEY} cannot be read: {error.message}")
    text = (found.get("data") or {}).get(names.SCHEDULER_CONFIG_KEY)
    if text is None:
        return _default(f"the ConfigMap {CONFIG_MAP_KEY} has no key {names.SCHEDULER_CONFIG_KEY}")
    try:
        return LiveConfig(parse(text, f"ConfigMap {CONFIG_MAP_KEY}"))
    except ConfigError as error:
        return _default(f"the configuration of the scheduler is invalid: {error}")


async def read_options(client: Client) -> SchedulerOptions:
    """Options of the scheduler: that of `volcano up` also places the pods of Kubernetes' default scheduler."""
    try:
        await client.get(NODE, Key("", names.LOCAL_CONTROL_PLANE_NODE))
    except ApiError:
        return SchedulerOptions()
    return SchedulerOptions(serve_default=True)


def _default(why: str) -> LiveConfig:
    return LiveConfig(parse(shipped(), "default"), f"{why}; the default configuration is used")

"""State of the plugin `fairshare`, computed from listed objects and recorded usage by the plugin's own code."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from volcano.accounting import api
from volcano.cli.session import Session
from volcano.embedded.system import CONFIG_KEY, CONFIG_NAME
from volcano.kube.api.errors import ApiError, Forbidden, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import GROUP_NAME, SCHEDULER_NAME, SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.pod_cache import DEFAULT_SCHEDULER
from volcano.model.snapshot import Snapshot
from volcano.model.status import HOLDING
from volcano.scheduler.engine.config import ConfigError, parse
from volcano.scheduler.plugins.fairshare import (
    Holdings,
    Settings,
    Standing,
    Usage,
    account_of,
    decayed_seconds,
    memory_of,
    remembered,
)

PLUGIN = "fairshare"
LISTED: tuple[Kind, ...] = (QUEUE, PRIORITY_CLASS, NODE, POD_GROUP, POD)


@dataclass(frozen=True, slots=True)
class FairShareState:
    """Shares and factors now, and where the numbers are from."""

    snapshot: Snapshot
    settings: Settings
    standing: Standing
    job_names: dict[str, str]  # uid of a job in the snapshot → name of the Job that owns its PodGroup
    configured: bool  # whether the scheduler uses the plugin
    usage_source: str  # "accounting" or "running pods"


async def read_state(session: Session) -> FairShareState:
    """Lists what the scheduler watches and reads its configuration and the recorded usage; warns of what is missing."""
    settings, configured = await _read_settings(session)
    usage_read = asyncio.create_task(_recorded(session, settings.half_life))
    listings = await asyncio.gather(*(session.client.list(kind) for kind in LISTED))
    cluster, job_names = Cluster(scheduler_names=_schedulers(listings[-1].items)), {}
    for kind, listing in zip(LISTED, listings, strict=True):
        decode = cluster.decoder(kind)
        for manifest in listing.items:
            cluster.apply(Event(EventType.ADDED, kind, decode(orjson.dumps(manifest))))
            if kind is POD_GROUP:
                job_names[str(key_of(manifest))] = _owner(manifest)
    now = session.clock.now().wall
    snapshot = cluster.snapshot(now)
    memory = await usage_read
    if memory is None:
        usage = _usage_of_running_pods(snapshot, settings)
    else:
        holdings = Holdings.of(snapshot, PLUGIN)
        usage = remembered(memory, now, snapshot.resources).follow(now, settings.half_life, holdings)
    return FairShareState(
        snapshot,
        settings,
        Standing(snapshot, settings, usage),
        job_names,
        configured,
        "running pods" if memory is None else "accounting",
    )


def _schedulers(pods: Sequence[Manifest]) -> set[str]:
    """Schedulers of the pods that belong to a PodGroup."""
    return {SCHEDULER_NAME} | {
        pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER
        for pod in pods
        if GROUP_NAME in (pod["metadata"].get("annotations") or {})
    }


async def _read_settings(session: Session) -> tuple[Settings, bool]:
    """Arguments of the plugin in the scheduler's configuration, and whether it is configured."""
    where = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_NAME}"
    try:
        found = await session.client.get(CONFIG_MAP, Key(SYSTEM_NAMESPACE, CONFIG_NAME))
        config = parse((found.get("data") or {}).get(CONFIG_KEY, ""), where)
    except (NotFound, Forbidden) as error:
        session.warn(f"the scheduler's configuration is not known, defaults are shown: {error.message}")
        return Settings(), True
    except ConfigError as error:
        session.warn(f"the scheduler's configuration is invalid, defaults are shown: {error}")
        return Settings(), True
    for tier in config.tiers:
        for plugin in tier:
            if plugin.name == PLUGIN:
                return Settings.of(plugin.arguments), True
    session.warn(f"the scheduler does not use the plugin {PLUGIN}: add it to {where}; defaults are shown")
    return Settings(), False


async def _recorded(session: Session, half_life: float) -> dict[str, Any] | None:
    """Recorded usage as memory of the plugin; None when it cannot be read."""
    target = f"{api.ROOT}/{api.DECAYED_USAGE}?{urlencode({'halfLifeSeconds': half_life})}"
    try:
        answer = orjson.loads((await session.client.raw("GET", target)).body)
        return memory_of(api.parse_decayed(answer))
    except ApiError as error:
        session.warn(f"recorded usage is not available, only pods that run now are counted: {error.message}")
    except (ValueError, KeyError) as error:
        session.warn(f"recorded usage cannot be understood, only pods that run now are counted: {error!r}")
    return None


def _usage_of_running_pods(snapshot: Snapshot, settings: Settings) -> Usage:
    """Decayed usage of the pods that run now since their start."""
    holdings = Holdings.of(snapshot, PLUGIN)
    usage = remembered(None, snapshot.now, snapshot.resources).follow(
        snapshot.now, settings.half_life, holdings
    )
    rows = {account: row for row, account in enumerate(usage.accounts)}
    for job in snapshot.jobs.values():
        for status in HOLDING:
            for task in job.by_status.get(status, ()):
                started = task.started or task.scheduled or snapshot.now
                seconds = decayed_seconds(max(snapshot.now - started, 0.0), settings.half_life)
                usage.used[rows[account_of(job)], : len(task.request)] += task.request * seconds
    return usage


def _owner(manifest: Manifest) -> str:
    """Name of the Job of a PodGroup, else its own."""
    metadata = manifest["metadata"]
    owners = metadata.get("ownerReferences") or []
    found = next((owner.get("name") for owner in owners if owner.get("controller")), None)
    return str(found or metadata["name"])

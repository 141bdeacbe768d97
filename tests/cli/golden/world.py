"""A cluster to ask commands in, and how its objects are created."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.builders import JobManifests
from tests.cli.explain import test_explain_screens
from tests.cluster import SmallCluster
from volcano.kube.api import kinds, names
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options
from volcano.model.cluster import WATCHED
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.history.cycle_history import CycleHistory

LOADED = kinds.by_gvk((*WATCHED, kinds.CONFIG_MAP, kinds.JOB, kinds.EVENT, kinds.NAMESPACE))
Fill = Callable[[SmallCluster], Awaitable[None]]


@dataclass(frozen=True)
class World:
    """A cluster, and command lines by the name of their document."""

    fill: Fill
    commands: Mapping[str, str]
    history: Callable[[], CycleHistory] = CycleHistory
    client: Callable[[Any, CycleHistory], Any] = test_explain_screens.ClientWithHistory
    files: Mapping[str, Manifest] = field(default_factory=dict)  # in the directory of the command


def filled(*manifests: Manifest | JobManifests, conf: str = "", deleted: tuple[str, ...] = ()) -> Fill:
    """Creates the objects one second after the other; `deleted` are pods that end then."""

    async def fill(cluster: SmallCluster) -> None:
        await create(cluster, namespace(names.SYSTEM_NAMESPACE), configuration(conf or shipped()))
        for each in manifests:
            await create(cluster, *((each.group, *each.pods) if isinstance(each, JobManifests) else (each,)))
            cluster.clock.advance(1)
        for name in deleted:
            options = Options(grace_seconds=60)
            await cluster.client.delete(kinds.POD, Key("default", name), options=options)

    return fill


async def create(cluster: SmallCluster, *manifests: Manifest) -> None:
    """Creates objects as builders write them, with their status."""
    for manifest in manifests:
        kind = LOADED[manifest["apiVersion"], manifest["kind"]]
        given = ("uid", "resourceVersion", "creationTimestamp")
        kept = {name: value for name, value in manifest["metadata"].items() if name not in given}
        for container in manifest["spec"].get("containers", ()) if kind is kinds.POD else ():
            amounts = container.get("resources", {})  # devices cannot be overcommitted
            amounts.setdefault("limits", dict(amounts.get("requests", {})))
        made = await cluster.client.create(kind, {**manifest, "metadata": kept})
        if manifest.get("status"):
            key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
            subresource = "status" if "status" in kind.subresources else ""
            await cluster.client.patch(kind, key, {"status": manifest["status"]}, subresource=subresource)


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def configuration(conf: str) -> Manifest:
    where = {"name": names.SCHEDULER_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
    data = {names.SCHEDULER_CONFIG_KEY: conf}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": where, "data": data}

"""Nodes with cards, pods that share them, and several cycles in a row."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import START, Amount, JobManifests, job, node
from tests.scenario import PluginSpec, Result, cluster_of, config, event
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.kube.devices import vgpu
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision
from volcano.scheduler.cycle import schedule

A100 = "NVIDIA-A100"
ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def card(
    uuid: str,
    memory: int = 16000,
    *,
    split: int = 10,
    type: str = A100,
    healthy: bool = True,
    mode: str = "hami-core",
) -> vgpu.Card:
    return vgpu.Card(uuid, split, memory, type, healthy, mode)


TWO_CARDS = (card("GPU-a"), card("GPU-b"))


def gpu_node(
    name: str = "g",
    cards: Sequence[vgpu.Card] = TWO_CARDS,
    annotations: Mapping[str, str] | None = None,
    more: Mapping[str, Amount] | None = None,
) -> Manifest:
    """A node as the device plugin reports it."""
    amounts: dict[str, Any] = {
        vgpu.NUMBER: sum(each.split for each in cards),
        vgpu.CORES: 100 * len(cards),
        vgpu.MEMORY: sum(each.memory for each in cards),
        **(more or {}),
    }
    notes = {vgpu.REGISTER: vgpu.format_register(cards), **(annotations or {})}
    return node(name, cpu=64, memory="256Gi", annotations=notes, **amounts)


def ask(
    number: int | None = None, memory: int | None = None, cores: int | None = None, percent: int | None = None
) -> dict[str, Any]:
    """Limits of one container."""
    names = (vgpu.NUMBER, vgpu.MEMORY, vgpu.CORES, vgpu.MEMORY_PERCENTAGE)
    return {
        name: amount for name, amount in zip(names, (number, memory, cores, percent), strict=True) if amount
    }


def containers(*limits: Mapping[str, int]) -> dict[str, Any]:
    """Spec of a pod with several containers."""
    return {
        "containers": [
            {
                "name": f"c{i}",
                "image": "busybox",
                "resources": {"limits": {k: str(v) for k, v in each.items()}},
            }
            for i, each in enumerate(limits)
        ]
    }


def sharing(policy: str = "binpack", weight: int = 10, **more: Any) -> dict[str, Any]:
    """The plugin with vGPUs on."""
    arguments: dict[str, Any] = {"deviceshare.VGPUEnable": True}
    if policy:
        arguments |= {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": weight}
    return plugin(**arguments, **{f"deviceshare.{name}": value for name, value in more.items()})


def plugin(**arguments: Any) -> dict[str, Any]:
    return {"name": "deviceshare", "arguments": arguments}


def device_config(
    text: str, name: str = "volcano-vgpu-device-config", namespace: str = "kube-system"
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
        "data": {"device-config.yaml": text},
    }


def pods(name: str, replicas: int = 1, **options: Any) -> JobManifests:
    """Pods that are placed one by one, not as a gang."""
    options.setdefault("min_available", 1)
    options.setdefault("cpu", "10m")
    return job(name, replicas, **options)


class Cards:
    """A cluster over several cycles: bound pods run, with the annotations of their binding."""

    def __init__(
        self, *, plugins: Sequence[PluginSpec] = (), actions: Sequence[str] = ACTIONS, **given: Any
    ) -> None:
        tier = ("priority", "gang", "conformance", "predicates", *(plugins or (sharing(),)))
        self.config = config(tier, actions=actions)
        self.cluster: Cluster = cluster_of(**given)
        self.manifests: dict[str, Manifest] = {}
        for each in given.get("jobs", ()):
            self._know(each)
        self.memory: Mapping[str, Any] = {}
        self.now = START
        self.seed = 0

    def _know(self, added: JobManifests) -> None:
        self.manifests |= {pod["metadata"]["name"]: pod for pod in added.pods}

    def add(self, *added: JobManifests) -> None:
        for each in added:
            self._know(each)
            for manifest in (each.group, *each.pods):
                self.cluster.apply(event(manifest, self.cluster))

    def apply(self, manifest: Manifest, kind: EventType = EventType.MODIFIED) -> None:
        self.cluster.apply(event(manifest, self.cluster, kind))

    def decide(self) -> Result:
        """A cycle whose decisions are assumed and not confirmed."""
        self.seed += 1
        snapshot = self.cluster.snapshot(self.now, self.seed, self.memory)
        outcome = schedule(snapshot, self.config)
        assert outcome.errors == ()
        assert outcome.faults == {}
        self.memory = outcome.memory
        self.cluster.assume(outcome.decisions)
        return Result(outcome, snapshot)

    def cycle(self) -> Result:
        """A cycle whose bindings the API server confirms."""
        result = self.decide()
        for decision in result.decisions:
            self.confirm(decision)
        return result

    def confirm(self, decision: Decision) -> None:
        if isinstance(decision, Bind):
            pod = self.manifests[decision.name]
            pod["metadata"]["annotations"] |= decision.annotations
            pod["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) + 1)
            pod["spec"]["nodeName"] = decision.node
            pod["status"]["phase"] = "Running"
            self.apply(pod)

    def change(self, name: str, **annotations: str) -> None:
        """Sets annotations of a pod."""
        pod = self.manifests[name]
        pod["metadata"]["annotations"] |= annotations
        self.apply(pod)

    def delete(self, name: str) -> None:
        self.apply(self.manifests.pop(name), EventType.DELETED)


def assigned(result: Result) -> dict[str, str]:
    """Pod → its cards, of every binding."""
    return {
        d.name: d.annotations[vgpu.ASSIGNED]
        for d in result.decisions
        if isinstance(d, Bind) and vgpu.ASSIGNED in d.annotations
    }


def cards_of(result: Result) -> dict[str, str]:
    """Pod → uuids of its cards, joined by `+`."""
    return {
        name: "+".join(share.uuid for shares in vgpu.parse_assignment(text) for share in shares)
        for name, text in assigned(result).items()
    }

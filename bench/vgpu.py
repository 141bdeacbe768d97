"""Shared devices: placements per second, idle cycles and restart, with vGPUs on every node."""

from collections.abc import Iterator
from typing import Any

import orjson

from bench._timing import timed
from bench.case import Case
from tests.builders import START, JobManifests, job, node, queue
from tests.scenario import cluster_of
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.kube.devices import vgpu
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse
from volcano.scheduler.engine.session import Outcome

BENCH = "vgpu"
CARDS, SHAPES = 8, 20
CONFIG = parse("""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: conformance}
- plugins:
  - {name: drf}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
""")


def cases(scale: float = 1.0) -> Iterator[Case]:
    """1,000 nodes with 8 cards and 10,000 pods, times `scale`."""
    nodes, pods = max(int(1_000 * scale), 10), max(int(10_000 * scale), 100)
    yield placements(nodes, pods, per_job=50)
    yield placements(nodes, pods, per_job=1)
    yield idle(nodes, pods)
    yield restart(nodes, pods)


def placements(nodes: int, pods: int, *, per_job: int) -> Case:
    """vGPU pods of 20 shapes, in gangs or one by one."""
    jobs = [_job(i, per_job) for i in range(pods // per_job)]
    cluster = cluster_of(nodes=_machines(nodes), jobs=jobs)
    seconds, outcome = timed(lambda: schedule(cluster.snapshot(START, 1), CONFIG))
    bound = sum(isinstance(decision, Bind) for decision in outcome.decisions)
    metrics = {
        "placements/s": bound / seconds,
        "placed": float(bound),
        "µs per pod": seconds / max(bound, 1) * 1e6,
    }
    name = f"{pods} vGPU pods of {SHAPES} shapes in jobs of {per_job}, {nodes} nodes × {CARDS} cards"
    # Jobs of one pod are limited by the work per job, with or without devices.
    targets = {"min:placements/s": 5_000.0} if per_job > 1 else {}
    return Case(BENCH, name, metrics, {**targets, "min:placed": float(pods)})


def idle(nodes: int, pods: int) -> Case:
    """A cycle in which all pods run and nothing changed."""
    cluster = cluster_of(nodes=_machines(nodes), jobs=[_job(i, 50) for i in range(pods // 50)])
    cluster.assume(schedule(cluster.snapshot(START, 1), CONFIG).decisions)
    schedule(cluster.snapshot(START, 2), CONFIG)
    seconds, _ = timed(lambda: schedule(cluster.snapshot(START, 3), CONFIG))
    return Case(
        BENCH, f"idle cycle, {pods} vGPU pods", {"milliseconds": seconds * 1000}, {"max:milliseconds": 20.0}
    )


def restart(nodes: int, pods: int) -> Case:
    """From a full list, as bytes, to the first decision, which needs the cards of all pods."""
    listed = list(_listing(nodes, pods))

    def start() -> Outcome:
        cluster = Cluster()
        for kind, data in listed:
            cluster.apply(Event(EventType.ADDED, kind, cluster.decoder(kind)(data)))
        return schedule(cluster.snapshot(START, 1), CONFIG)

    seconds, outcome = timed(start)
    bound = sum(isinstance(decision, Bind) for decision in outcome.decisions)
    metrics = {"seconds": seconds, "bound": float(bound)}
    return Case(BENCH, f"restart with {pods} vGPU pods", metrics, {"max:seconds": 3.0, "min:bound": 50.0})


def _machines(nodes: int) -> list[Manifest]:
    return [_machine(f"n{i}") for i in range(nodes)]


def _machine(name: str) -> Manifest:
    cards = [vgpu.Card(f"GPU-{name}-{i}", 10, 81920, "NVIDIA-NVIDIA A100-SXM4-80GB") for i in range(CARDS)]
    amounts: dict[str, Any] = {vgpu.NUMBER: 10 * CARDS, vgpu.CORES: 100 * CARDS, vgpu.MEMORY: 81920 * CARDS}
    register = {vgpu.REGISTER: vgpu.format_register(cards)}
    return node(name, cpu=128, memory="1Ti", pods=250, annotations=register, **amounts)


def _job(number: int, pods: int, **options: Any) -> JobManifests:
    """A job of one of 20 shapes: one card or two, of different memory and cores."""
    shape = number % SHAPES
    limits: dict[str, Any] = {
        vgpu.NUMBER: 2 if shape % 5 == 4 else 1,
        vgpu.MEMORY: 4096 * (1 + shape % 10),
        **({vgpu.CORES: 10 * (1 + shape % 4)} if shape % 2 else {}),
    }
    return job(f"v{number}", pods, cpu="500m", memory="2Gi", age=-number, **options, **limits)


def _listing(nodes: int, pods: int) -> Iterator[tuple[Any, bytes]]:
    """Encoded list as from an API server: running pods with their cards, and one gang that waits."""
    yield kinds.QUEUE, orjson.dumps(queue("default"))
    for machine in _machines(nodes):
        yield kinds.NODE, orjson.dumps(machine)
    per_node = pods // nodes
    for number in range(nodes):
        name = f"n{number}"
        running = _job(number * SHAPES, per_node, on=name, phase="Running")
        yield kinds.POD_GROUP, orjson.dumps(running.group)
        for i, pod in enumerate(running.pods):
            share = vgpu.DeviceShare(f"GPU-{name}-{i % CARDS}", vgpu.NVIDIA, 4096, 0)
            text = vgpu.format_assignment([[share]])
            pod["metadata"]["annotations"] |= {
                vgpu.ASSIGNED: text,
                vgpu.NODE: name,
                vgpu.TIME: vgpu.HANDED_OUT,
                vgpu.TO_ALLOCATE: "",
                vgpu.BIND_PHASE: vgpu.SUCCESS,
                vgpu.BIND_TIME: str(int(START)),
            }
            yield kinds.POD, orjson.dumps(pod)
    waiting = _job(nodes * SHAPES + 1, 50)
    yield kinds.POD_GROUP, orjson.dumps(waiting.group)
    for pod in waiting.pods:
        yield kinds.POD, orjson.dumps(pod)

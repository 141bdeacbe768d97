"""Generated clusters for property tests: small, crowded, and with everything that makes scheduling hard."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.builders import JobManifests, job, node, priority_class, queue, resources
from volcano.kube.api.manifest import Manifest


@dataclass(frozen=True)
class World:
    """A cluster as manifests, to be handed to `scenario.schedule(**world.parts())`."""

    nodes: tuple[Manifest, ...]
    queues: tuple[Manifest, ...]
    jobs: tuple[JobManifests, ...]

    def parts(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "queues": self.queues,
            "jobs": self.jobs,
            "others": [priority_class("low", 10), priority_class("high", 1000)],
        }


@st.composite
def worlds(draw: st.DrawFn, *, running: bool = True) -> World:
    """A few nodes, up to three queues, jobs that run or wait; never more on a node than it holds."""
    nodes = tuple(
        node(
            f"n{i}",
            cpu=draw(st.integers(1, 6)),
            memory=f"{draw(st.integers(1, 8))}Gi",
            pods=draw(st.integers(2, 8)),
        )
        for i in range(draw(st.integers(1, 4)))
    )
    names = [f"q{i}" for i in range(draw(st.integers(1, 3)))]
    queues = tuple(_queue(draw, name) for name in names)
    room = {
        n["metadata"]["name"]: [_cpu(n), _memory(n), int(n["status"]["allocatable"]["pods"])] for n in nodes
    }
    jobs = tuple(
        _job(draw, f"j{i}", draw(st.sampled_from(names)), room, running=running)
        for i in range(draw(st.integers(1, 7)))
    )
    return World(nodes, queues, jobs)


def _queue(draw: st.DrawFn, name: str) -> Manifest:
    limit = draw(st.one_of(st.none(), st.integers(1, 8)))
    promised = draw(st.one_of(st.none(), st.none(), st.integers(1, 2)))
    return queue(
        name,
        weight=draw(st.integers(1, 3)),
        priority=draw(st.integers(0, 2)),
        capability=resources(cpu=limit) if limit else None,
        guarantee=resources(cpu=min(promised, limit or promised)) if promised else None,
        reclaimable=draw(st.booleans()),
    )


def _job(
    draw: st.DrawFn, name: str, queue_name: str, room: dict[str, list[float]], *, running: bool
) -> JobManifests:
    replicas = draw(st.integers(1, 4))
    cpu, memory = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    on: list[str] = []
    if running and draw(st.booleans()):
        for _ in range(draw(st.integers(1, replicas))):
            found = next((n for n, (c, m, p) in room.items() if c >= cpu and m >= memory and p >= 1), None)
            if found is None:
                break
            room[found][0] -= cpu
            room[found][1] -= memory
            room[found][2] -= 1
            on.append(found)
    minimum = draw(st.integers(0, replicas))
    if on:
        minimum = min(minimum, len(on))
    return job(
        name,
        replicas,
        min_available=minimum,
        queue=queue_name,
        cpu=cpu or None,
        memory=f"{memory}Gi" if memory else None,
        on=on,
        phase="Running" if on else draw(st.sampled_from(("Inqueue", "Pending"))),
        priority_class=draw(st.sampled_from(("low", "high", ""))),
        preemptable=draw(st.sampled_from((None, True, False))),
        min_resources=resources(cpu=cpu * minimum) if cpu and minimum and draw(st.booleans()) else None,
        age=draw(st.integers(0, 100)),
    )


def _cpu(manifest: Manifest) -> float:
    return float(manifest["status"]["allocatable"]["cpu"])


def _memory(manifest: Manifest) -> float:
    return float(manifest["status"]["allocatable"]["memory"].removesuffix("Gi"))

"""Manifests with readable defaults: node(), pod(), queue(), podgroup(), and job() for a PodGroup with its pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import timestamp
from volcano.kube.api import names
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.numa import cpusets

START = 1_800_000_000.0
Amount = str | int | float


def resources(cpu: Amount | None = None, memory: Amount | None = None, **more: Amount) -> dict[str, str]:
    """A resource list; `gpu` stands for nvidia.com/gpu."""
    given = {
        "cpu": cpu,
        "memory": memory,
        **{("nvidia.com/gpu" if k == "gpu" else k): v for k, v in more.items()},
    }
    return {name: str(amount) for name, amount in given.items() if amount is not None}


def metadata(
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    age: float = 0.0,
    version: int = 1,
) -> Manifest:
    """Metadata of an object that is `age` seconds old."""
    found: Manifest = {
        "name": name,
        "uid": f"uid-{namespace}-{name}" if namespace else f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": timestamp(START - age),
    }
    if namespace:
        found["namespace"] = namespace
    if labels:
        found["labels"] = dict(labels)
    if annotations:
        found["annotations"] = dict(annotations)
    return found


def node(
    name: str,
    cpu: Amount = 4,
    memory: Amount = "8Gi",
    *,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    **more: Amount,
) -> Manifest:
    """A Node; `gpu=` and other resource names go in its allocatable."""
    amounts = {**resources(cpu, memory, **more), "pods": str(pods)}
    spec: Manifest = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    labelled = {"kubernetes.io/hostname": name, **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labelled, annotations=annotations),
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        },
    }


def queue(
    name: str,
    weight: int = 1,
    *,
    capability: Mapping[str, str] | None = None,
    deserved: Mapping[str, str] | None = None,
    guarantee: Mapping[str, str] | None = None,
    parent: str = "",
    priority: int = 0,
    reclaimable: bool | None = None,
    state: str = "Open",
    annotations: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    dequeue_strategy: str = "",
    age: float = 0.0,
) -> Manifest:
    """A Queue; resource lists as `resources(cpu=2)`."""
    spec: Manifest = {"weight": weight}
    for field, value in (
        ("capability", capability),
        ("deserved", deserved),
        ("parent", parent),
        ("priority", priority),
        ("reclaimable", reclaimable),
        ("affinity", affinity),
        ("dequeueStrategy", dequeue_strategy),
        ("guarantee", {"resource": guarantee} if guarantee else None),
    ):
        if value is False or value not in (None, "", 0):
            spec[field] = value
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata(name, annotations=annotations, age=age),
        "spec": spec,
        "status": {"state": state},
    }


def podgroup(
    name: str,
    *,
    namespace: str = "default",
    queue: str = "default",
    min_member: int = 1,
    min_task_member: Mapping[str, int] | None = None,
    min_resources: Mapping[str, str] | None = None,
    priority_class: str = "",
    phase: str = "Inqueue",
    conditions: Sequence[Mapping[str, str]] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    age: float = 0.0,
    **spec: Any,
) -> Manifest:
    """A PodGroup, admitted unless `phase` says otherwise."""
    body: Manifest = {"minMember": min_member, "queue": queue, **spec}
    if min_task_member:
        body["minTaskMember"] = dict(min_task_member)
    if min_resources is not None:
        body["minResources"] = dict(min_resources)
    if priority_class:
        body["priorityClassName"] = priority_class
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata(name, namespace, labels=labels, annotations=annotations, age=age),
        "spec": body,
        "status": {"phase": phase, "conditions": [dict(condition) for condition in conditions]},
    }


def pod(
    name: str,
    cpu: Amount | None = 1,
    memory: Amount | None = None,
    *,
    group: str = "",
    namespace: str = "default",
    node: str = "",
    phase: str = "",
    role: str = "",
    priority: int | None = None,
    preemptable: bool | None = None,
    deleting: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    gates: Sequence[str] = (),
    nominated: str = "",
    scheduler: str = names.SCHEDULER_NAME,
    priority_class: str = "",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    age: float = 0.0,
    version: int = 1,
    **more: Amount,
) -> Manifest:
    """A Pod: Running when it has a node, Pending otherwise, unless `phase` says so. `cpu=None` asks for nothing."""
    notes = dict(annotations or {})
    if group:
        notes[names.GROUP_NAME] = group
    if role:
        notes[names.TASK_SPEC] = role
    if preemptable is not None:
        notes[names.PREEMPTABLE] = str(preemptable).lower()
    body: Manifest = {
        "schedulerName": scheduler,
        "containers": [
            {"name": "main", "image": "busybox", "resources": {"requests": resources(cpu, memory, **more)}}
        ],
        **(spec or {}),
    }
    if node:
        body["nodeName"] = node
    if priority is not None:
        body["priority"] = priority
    if priority_class:
        body["priorityClassName"] = priority_class
    if gates:
        body["schedulingGates"] = [{"name": gate} for gate in gates]
    state: Manifest = {"phase": phase or ("Running" if node else "Pending"), **(status or {})}
    if nominated:
        state["nominatedNodeName"] = nominated
    meta = metadata(name, namespace, labels=labels, annotations=notes, age=age, version=version)
    if deleting:
        meta["deletionTimestamp"] = timestamp(START)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": state}


@dataclass(frozen=True)
class JobManifests:
    """A PodGroup and its pods."""

    group: Manifest
    pods: tuple[Manifest, ...]


def job(
    name: str,
    replicas: int = 1,
    *,
    min_available: int | None = None,
    queue: str = "default",
    namespace: str = "default",
    cpu: Amount | None = 1,
    memory: Amount | None = None,
    phase: str = "Inqueue",
    priority_class: str = "",
    min_resources: Mapping[str, str] | None = None,
    on: str | Sequence[str] = (),
    age: float = 0.0,
    group: Mapping[str, Any] | None = None,
    **options: Any,
) -> JobManifests:
    """A job of identical pods `<name>-worker-<i>`; `on` names the node (or nodes, one per pod) they run on.

    `min_available` is all of them unless said; `group` are more arguments of podgroup(), the rest go to pod().
    """
    nodes = [on] * replicas if isinstance(on, str) else [*on, *[""] * (replicas - len(on))]
    manifest = podgroup(
        name,
        namespace=namespace,
        queue=queue,
        min_member=replicas if min_available is None else min_available,
        priority_class=priority_class,
        min_resources=min_resources,
        phase=phase,
        age=age,
        **(group or {}),
    )
    members = tuple(
        pod(
            f"{name}-worker-{i}",
            cpu,
            memory,
            group=name,
            namespace=namespace,
            node=nodes[i],
            age=age,
            **options,
        )
        for i in range(replicas)
    )
    return JobManifests(manifest, members)


def priority_class(name: str, value: int, *, default: bool = False) -> Manifest:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(name),
        "value": value,
        "globalDefault": default,
    }


def numatopology(
    name: str,
    numa_nodes: int = 2,
    cpus: int = 8,
    *,
    threads: int = 1,
    policy: str = "best-effort",
    cpu_manager: str = "static",
    allocatable: str | None = None,
    reserved: Amount | None = None,
    pods: Mapping[str, str] | None = None,
) -> Manifest:
    """A Numatopology with one socket per NUMA node, each with `cpus` CPUs; as in JSON, zeros are left out.

    `pods` are the CPUs of pods by uid; without `allocatable`, all other CPUs are free.
    """
    located = {
        number: {"numa": number // cpus, "socket": number // cpus, "core": number % cpus // threads}
        for number in range(numa_nodes * cpus)
    }
    taken = cpusets.union(cpusets.parse(text) for text in (pods or {}).values())
    free = cpusets.text_of(cpusets.of(located) & ~taken)
    spec: Manifest = {
        "policies": {"CPUManagerPolicy": cpu_manager, "TopologyManagerPolicy": policy},
        "numares": {
            "cpu": {"allocatable": free if allocatable is None else allocatable, "capacity": len(located)}
        },
        "cpuDetail": {
            str(number): {key: value for key, value in cpu.items() if value}
            for number, cpu in located.items()
        },
        "podAllocations": [
            {"uid": uid, "containerAllocations": [{"name": "main", "allocations": {"cpu": text}}]}
            for uid, text in (pods or {}).items()
        ],
    }
    if reserved is not None:
        spec["resReserved"] = {"cpu": str(reserved)}
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": metadata(name),
        "spec": spec,
    }

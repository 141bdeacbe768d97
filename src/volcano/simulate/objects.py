"""API objects of a simulated cluster: built from a workload, parsed by the scheduler's own parser."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import msgspec

from volcano.kube.api import kinds, names
from volcano.kube.api.kinds import Kind
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.job import PodGroup
from volcano.model.node import Taint
from volcano.model.parse_auxiliary import AuxiliaryObject, PriorityClass
from volcano.model.task import Task
from volcano.simulate.workload import Requests, SimNode, SimQueue, TraceJob, TraceTask

NAMESPACE = "simulated"
GPU = "nvidia.com/gpu"
GPU_MODEL = "nvidia.com/gpu.product"  # node label, as GPU feature discovery sets it
VGPU_NUMBER, VGPU_CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-cores"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_REGISTER, VGPU_HANDSHAKE = "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake"
SPLIT = 100  # containers that may share one card: its cores are the limit
CARD_MEMORY = 100_000  # MiB; traces do not say how much memory of a card a pod needs
PERCENT = 100
UNREACHABLE, EFFECTS = "node.kubernetes.io/unreachable", ("NoSchedule", "NoExecute")


class GpuSharing(Enum):
    """How fractions of cards are requested."""

    DIVISIBLE = "divisible"  # thousandths of nvidia.com/gpu: only the sum per node counts
    VGPU = "vgpu"  # vGPU cores in percent of one card; needs the plugin deviceshare


class ObjectBuilder:
    """Parsed objects for the cluster cache. Each kind of pod is parsed once and copied for further pods."""

    def __init__(self, cluster: Cluster, start: float, sharing: GpuSharing) -> None:
        """`start` is the wall time of the start of the trace."""
        self._decode = {
            kind: cluster.decoder(kind) for kind in (kinds.NODE, kinds.POD, kinds.QUEUE, kinds.POD_GROUP)
        }
        self._start = start
        self._sharing = sharing
        self._templates: dict[tuple[Requests, str, int, bool], Task] = {}
        self._version = 0

    def version(self) -> str:
        """The next resource version."""
        self._version += 1
        return str(self._version)

    def node(self, node: SimNode, *, failed: bool = False) -> Any:
        """A Node; one that has failed is unreachable, as the node lifecycle controller marks it."""
        if node.template is None:
            return self._parse(kinds.NODE, self._node_manifest(node, failed))
        taints = tuple(Taint(UNREACHABLE, "", effect) for effect in EFFECTS) if failed else ()
        given = node.template
        return replace(
            given, name=node.name, resource_version=self.version(), taints=(*given.taints, *taints)
        )

    def _node_manifest(self, node: SimNode, failed: bool) -> dict[str, Any]:
        amounts = {"cpu": f"{round(node.cpu * 1000)}m", "memory": str(round(node.memory))}
        amounts |= {"pods": str(node.pods), **dict(node.others)}
        annotations = {}
        if node.gpus and self._sharing is GpuSharing.VGPU:
            amounts |= {VGPU_NUMBER: str(node.gpus * SPLIT), VGPU_CORES: str(node.gpus * PERCENT)}
            amounts[VGPU_MEMORY] = str(node.gpus * CARD_MEMORY)
            annotations = {VGPU_REGISTER: vgpu_register(node), VGPU_HANDSHAKE: "Reported"}
        elif node.gpus:
            amounts[GPU] = str(node.gpus)
        labels = {"kubernetes.io/hostname": node.name, **node.labels}
        if node.gpu_model:
            labels[GPU_MODEL] = node.gpu_model
        taints = [{"key": UNREACHABLE, "effect": effect} for effect in EFFECTS]
        return {
            "metadata": {
                "name": node.name,
                "labels": labels,
                "annotations": annotations,
                "resourceVersion": self.version(),
            },
            "spec": {"taints": taints} if failed else {},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    def queue(self, queue: SimQueue) -> Any:
        spec: dict[str, Any] = {"weight": queue.weight, "reclaimable": queue.reclaimable}
        spec |= {"parent": queue.parent} if queue.parent else {}
        spec |= {"priority": queue.priority} if queue.priority else {}
        spec |= {"dequeueStrategy": queue.dequeue_strategy} if queue.dequeue_strategy else {}
        spec |= {"capability": dict(queue.capability)} if queue.capability else {}
        spec |= {"deserved": dict(queue.deserved)} if queue.deserved else {}
        spec |= {"guarantee": {"resource": dict(queue.guarantee)}} if queue.guarantee else {}
        manifest = {"metadata": {"name": queue.name, "uid": queue.name}, "spec": spec}
        return self._parse(kinds.QUEUE, manifest | {"status": {"state": "Open"}})

    def priority_class(self, value: int) -> Event:
        name = priority_class_name(value)
        return added(kinds.PRIORITY_CLASS, AuxiliaryObject("", name, PriorityClass(name, value)))

    def pod_group(self, job: TraceJob, created: float) -> PodGroup:
        return PodGroup(
            NAMESPACE,
            job.name,
            object_uid=job.name,
            resource_version=self.version(),
            queue=job.queue,
            min_member=job.minimum,
            priority_class=priority_class_name(job.priority) if job.priority else "",
            phase="Pending",
            created=self._start + created,
            annotations={names.USER: job.user} if job.user else {},
            preemptable=job.preemptable,
            walltime=job.walltime,
        )

    def pod(self, job: TraceJob, task: TraceTask, number: int, created: float, uid: str) -> Task:
        """A pending pod of a job."""
        key = (task.requests, task.role, job.priority, job.preemptable)
        template = task.template or self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._parse(kinds.POD, self._pod_manifest(job, task))
        return msgspec.structs.replace(
            template,
            uid=uid,
            name=pod_name(job, number),
            job=f"{NAMESPACE}/{job.name}",
            created=self._start + created,
            index=number,
        )

    def _pod_manifest(self, job: TraceJob, task: TraceTask) -> dict[str, Any]:
        annotations = {names.GROUP_NAME: "", names.PREEMPTABLE: str(job.preemptable).lower()}
        if task.role:
            annotations[names.TASK_SPEC] = task.role
        requests = task.requests
        spec: dict[str, Any] = {
            "schedulerName": names.SCHEDULER_NAME,
            "containers": [{"name": "main", "resources": {"requests": amounts(requests, self._sharing)}}],
            "priority": job.priority,
        }
        if requests.node_selector:
            spec["nodeSelector"] = dict(requests.node_selector)
        if requests.gpu_models:
            term = {"key": GPU_MODEL, "operator": "In", "values": list(requests.gpu_models)}
            required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        metadata = {"name": "template", "namespace": NAMESPACE, "uid": "u", "annotations": annotations}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def _parse(self, kind: Kind, manifest: Mapping[str, Any]) -> Any:
        return self._decode[kind](msgspec.json.encode(manifest))


def amounts(requests: Requests, sharing: GpuSharing) -> dict[str, str]:
    """Requests of a container, as quantities."""
    found = {"cpu": f"{round(requests.cpu * 1000)}m", "memory": str(round(requests.memory))}
    found |= dict(requests.others)
    if requests.gpus and sharing is GpuSharing.VGPU:
        cores = math.ceil(round(requests.gpu_share * PERCENT, 6))
        # Without a request for memory a pod would get all memory of the card.
        memory = CARD_MEMORY * cores // PERCENT
        found |= {VGPU_NUMBER: str(requests.gpus), VGPU_CORES: str(cores), VGPU_MEMORY: str(memory)}
    elif requests.gpus:
        found[GPU] = f"{round(requests.gpu * 1000)}m"
    return found


def vgpu_register(node: SimNode) -> str:
    """The cards of a node as the vGPU device plugin registers them."""
    kind = f"NVIDIA-{node.gpu_model or 'GPU'}"
    return "".join(
        f"{node.name}-gpu-{card},{SPLIT},{CARD_MEMORY},{kind},true,hami-core:" for card in range(node.gpus)
    )


def pod_name(job: TraceJob, number: int) -> str:
    return f"{job.name}-{number}"


def priority_class_name(value: int) -> str:
    return f"priority-{value}"


def added(kind: Kind, value: Any) -> Event:
    return Event(EventType.ADDED, kind, value)


def modified(kind: Kind, value: Any) -> Event:
    return Event(EventType.MODIFIED, kind, value)


def deleted(kind: Kind, value: Any) -> Event:
    return Event(EventType.DELETED, kind, value)


def apply_all(cluster: Cluster, events: Iterable[Event]) -> None:
    for event in events:
        cluster.apply(event)

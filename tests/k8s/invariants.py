"""Invariants under faults: no node over-allocated, no pod bound twice, every gang whole or pending.

Each rule reads a history of pods (see `plain.History`) and returns the violations it found.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.k8s.plain import Object
from volcano.kube.api.quantity import parse

Events = Sequence[tuple[str, Object]]
TERMINAL = ("Succeeded", "Failed")


def bound_twice(events: Events) -> list[str]:
    """Pods whose node changed after they had one."""
    nodes: dict[str, str] = {}
    violations = []
    for _, pod in events:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        before = nodes.get(uid, "")
        if before and node != before:
            violations.append(f"{_name(pod)} moved from {before} to {node or 'nowhere'}")
        nodes[uid] = node or before
    return violations


def over_allocated(events: Events, nodes: Iterable[Object], *, accepted: bool = False) -> list[str]:
    """Events after which the requests of a node's pods exceeded its allocatable.

    With `accepted` a pod counts once its kubelet has admitted it, not once it is bound: where several schedulers bind
    to one node at the same time only the kubelet can reject the pod that does not fit.
    """
    allocatable = {node["metadata"]["name"]: _amounts(node["status"]["allocatable"]) for node in nodes}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    counted: dict[str, tuple[str, Counter[str]]] = {}
    violations = []
    for kind, pod in events:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if uid in counted:
            at, amount = counted.pop(uid)
            used[at].subtract(amount)
        phase = pod.get("status", {}).get("phase")
        if kind == "DELETED" or not node or phase in TERMINAL or (accepted and phase != "Running"):
            continue
        counted[uid] = node, requests(pod)
        used[node].update(counted[uid][1])
        for resource in counted[uid][1]:
            if used[node][resource] > allocatable[node][resource]:
                violations.append(
                    f"{node} has {allocatable[node][resource]} of {resource} and {used[node][resource]} are requested "
                    f"with {_name(pod)} (version {pod['metadata']['resourceVersion']})"
                )
    return violations


def started_twice(events: Events, retries: Mapping[str, int]) -> list[str]:
    """Pods that were created more often than their job was tried; `retries` by namespace/job."""
    created: dict[str, set[str]] = defaultdict(set)
    allowed: dict[str, int] = {}
    for _, pod in events:
        job = _label(pod, "volcano.sh/job-name")
        if job:
            name = _name(pod)
            created[name].add(pod["metadata"]["uid"])
            allowed[name] = 1 + retries.get(f"{pod['metadata']['namespace']}/{job}", 0)
    return [
        f"{name} was created {len(uids)} times, allowed {allowed[name]}"
        for name, uids in created.items()
        if len(uids) > allowed[name]
    ]


def broken_gangs(groups: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """PodGroups with some, but fewer than minMember, of their pods bound."""
    placed: Counter[str] = Counter()
    for pod in pods:
        group = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
        if group and pod["spec"].get("nodeName"):
            placed[f"{pod['metadata']['namespace']}/{group}"] += 1
    violations = []
    for group in groups:
        name, least = _name(group), group["spec"].get("minMember", 1)
        if 0 < placed[name] < least:
            violations.append(f"{name} has {placed[name]} of at least {least} placed")
    return violations


def requests(pod: Object) -> "Counter[str]":
    """A pod's resource requests, in milli-units."""
    total: Counter[str] = Counter({"pods": 1000})
    for container in pod["spec"]["containers"]:
        total.update(_amounts(container.get("resources", {}).get("requests", {})))
    return total


def _amounts(resources: Mapping[str, str]) -> "Counter[str]":
    return Counter({name: int(parse(text) * 1000) for name, text in resources.items()})


def _label(pod: Object, name: str) -> str:
    return str(pod["metadata"].get("labels", {}).get(name, ""))


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"

"""What must hold whatever fails: no node over-allocated, no pod bound twice, every gang whole or pending.

Each rule reads a history of pods (see `plain.History`) and returns its complaints; none is what a test asks for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.k8s.plain import Object
from volcano.kube.quantity import parse

Events = Sequence[tuple[str, Object]]
TERMINAL = ("Succeeded", "Failed")


def bound_twice(events: Events) -> list[str]:
    """Pods whose node changed after they had one."""
    nodes: dict[str, str] = {}
    complaints = []
    for _, pod in events:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        before = nodes.get(uid, "")
        if before and node != before:
            complaints.append(f"{_name(pod)} moved from {before} to {node or 'nowhere'}")
        nodes[uid] = node or before
    return complaints


def over_allocated(events: Events, nodes: Iterable[Object], *, accepted: bool = False) -> list[str]:
    """Moments at which the pods on a node asked for more than it has.

    With `accepted` a pod counts from when its node took it, not from its binding: where several schedulers bind to one
    node at a time nobody but the node can tell who came too late.
    """
    room = {node["metadata"]["name"]: _amounts(node["status"]["allocatable"]) for node in nodes}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    counted: dict[str, tuple[str, Counter[str]]] = {}
    complaints = []
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
            if used[node][resource] > room[node][resource]:
                complaints.append(
                    f"{node} had {room[node][resource]} of {resource} and {used[node][resource]} asked for it "
                    f"when {_name(pod)} came (version {pod['metadata']['resourceVersion']})"
                )
    return complaints


def started_twice(events: Events, retries: Mapping[str, int]) -> list[str]:
    """Pods that were made more often than their job was tried; `retries` by namespace/job."""
    made: dict[str, set[str]] = defaultdict(set)
    allowed: dict[str, int] = {}
    for _, pod in events:
        job = _label(pod, "volcano.sh/job-name")
        if job:
            name = _name(pod)
            made[name].add(pod["metadata"]["uid"])
            allowed[name] = 1 + retries.get(f"{pod['metadata']['namespace']}/{job}", 0)
    return [
        f"{name} was made {len(uids)} times, at most {allowed[name]} explained"
        for name, uids in made.items()
        if len(uids) > allowed[name]
    ]


def broken_gangs(groups: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Groups of which some, but fewer than their minimum, have a node or are done."""
    placed: Counter[str] = Counter()
    for pod in pods:
        group = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
        if group and pod["spec"].get("nodeName"):
            placed[f"{pod['metadata']['namespace']}/{group}"] += 1
    complaints = []
    for group in groups:
        name, least = _name(group), group["spec"].get("minMember", 1)
        if 0 < placed[name] < least:
            complaints.append(f"{name} has {placed[name]} of at least {least} placed")
    return complaints


def requests(pod: Object) -> "Counter[str]":
    """What a pod asks for, in milli-units."""
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

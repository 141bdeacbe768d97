"""Node side of shared cards: shares that the scheduler has assigned to containers, and the answer of the node.

The scheduler writes the shares of a pod's containers into annotations; the node hands them out and reports that by
other annotations, as HAMi's device plugin does. Shares are found in the pod itself, not by the time and the number of
devices, so that pods which start at the same time are not confused.
"""

from collections.abc import Collection, Mapping, Sequence

from volcano.kube.api.manifest import Manifest, annotations_of
from volcano.kube.devices import ascend, vgpu
from volcano.kube.devices.vgpu import Card, DeviceShare
from volcano.nodes.kubelet.gpus.inventory import Gpu

CORES_PER_CARD = 100
LOCKS = (vgpu.LOCK, ascend.LOCK)
_NPUS_TO_ALLOCATE = "-devices-to-allocate"
# Characters that separate entries in annotations.
_SEPARATORS = str.maketrans({",": " ", ":": " ", ";": " "})


def registered(cards: Sequence[Gpu], split: int, unhealthy: Collection[str]) -> list[Card]:
    """Cards as a node registers them: each may be shared by `split` containers."""
    return [
        Card(card.uuid, split, card.memory, card_type(card.name), card.uuid not in unhealthy)
        for card in cards
    ]


def card_type(name: str) -> str:
    """The type of a card, such as `NVIDIA-NVIDIA A100-PCIE-40GB`."""
    return f"{vgpu.NVIDIA}-{name.translate(_SEPARATORS)}"


def shared_resources(cards: Sequence[Card]) -> dict[str, str]:
    """What a node offers of its cards: places, MiB of memory and percent of cores."""
    return {
        vgpu.NUMBER: str(sum(card.split for card in cards)),
        vgpu.MEMORY: str(sum(card.memory for card in cards)),
        vgpu.CORES: str(CORES_PER_CARD * len(cards)),
    }


def wants_share(container: Manifest) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return vgpu.NUMBER in limits or vgpu.MEMORY in limits


def sharing_containers(pod: Manifest) -> list[str]:
    """Names of the containers with an entry in the assignment, in its order. Init containers have none."""
    return [each["name"] for each in pod["spec"].get("containers") or () if wants_share(each)]


def shares_of(pod: Manifest, container: str) -> tuple[DeviceShare, ...]:
    """The shares that the scheduler assigned to a container. Raises ValueError if there is no valid assignment."""
    names = sharing_containers(pod)
    if container not in names:
        return ()
    return assignment_of(pod)[names.index(container)]


def assignment_of(pod: Manifest) -> list[tuple[DeviceShare, ...]]:
    """The shares of all containers that ask for some. Raises ValueError if there is no valid assignment."""
    text = annotations_of(pod).get(vgpu.ASSIGNED, "")
    if not text:
        raise ValueError(
            "the pod has no share of a card: only a scheduler with the plugin deviceshare assigns them "
            "(schedulerName: volcano)"
        )
    found = [tuple(shares) for shares in vgpu.parse_assignment(text)]
    names = sharing_containers(pod)
    if len(found) != len(names):
        raise ValueError(
            f"annotation {vgpu.ASSIGNED} has {len(found)} entries; it should have one for each of the {len(names)} "
            "containers that ask for a share"
        )
    return found


def assignment_problem(pod: Manifest, node: str, cards: Collection[str]) -> str:
    """Why a node cannot hand out the shares of a pod; empty if it can, and for a pod without any."""
    names = sharing_containers(pod)
    if not names:
        return ""
    try:
        assigned = assignment_of(pod)
    except ValueError as error:
        return str(error)
    owner = annotations_of(pod).get(vgpu.NODE, node)
    if owner != node:
        return f"its shares are of node {owner}, not of {node}"
    for name, shares in zip(names, assigned, strict=True):
        if not shares:
            return f"container {name} asks for a share and has none"
        for share in shares:
            if vgpu.card_uuid(share.uuid) not in cards:
                return f"container {name} was assigned card {share.uuid}, which node {node} does not have"
    return ""


def is_waiting(pod: Manifest) -> bool:
    """Whether the node has not answered the scheduler yet."""
    annotations = annotations_of(pod)
    return vgpu.ALLOCATING in (annotations.get(vgpu.BIND_PHASE), annotations.get(ascend.BIND_PHASE))


def answer(pod: Manifest, *, failed: bool) -> dict[str, str]:
    """The annotations by which a node reports that the shares of a pod were handed out, or could not be.

    Shares of cards and of NPUs have annotations of the same meaning under different names.
    """
    annotations = annotations_of(pod)
    done: dict[str, str] = {}
    for phase, time in ((vgpu.BIND_PHASE, vgpu.TIME), (ascend.BIND_PHASE, ascend.TIME)):
        if annotations.get(phase) == vgpu.ALLOCATING:
            done |= {phase: vgpu.FAILED if failed else vgpu.SUCCESS, time: vgpu.HANDED_OUT}
    if not failed:
        # An entry is emptied when it has been handed out; the separators stay.
        done |= {
            name: "".join(character for character in value if character == ";")
            for name, value in annotations.items()
            if name == vgpu.TO_ALLOCATE or (name.startswith("hami.io/") and name.endswith(_NPUS_TO_ALLOCATE))
        }
    return done


def held_locks(node: Manifest) -> list[str]:
    """Annotations by which a scheduler has locked a node until shares are handed out."""
    return [name for name in LOCKS if name in annotations_of(node)]


def share_environment(shares: Sequence[DeviceShare], memory: Mapping[str, int]) -> dict[str, str]:
    """Variables that tell programs their share; `memory` is the total of each card in MiB.

    The first three are those of HAMi's library, which enforces them where it is installed. Without it, frameworks
    that read the others keep to the share, and all other programs are trusted to.
    """
    if not shares:
        return {}
    variables = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{share.memory}m" for number, share in enumerate(shares)
    }
    variables["CUDA_DEVICE_SM_LIMIT"] = str(shares[0].cores)
    variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(
        f"{number}={share.memory}M" for number, share in enumerate(shares)
    )
    if shares[0].cores:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(shares[0].cores)
    totals = [memory.get(vgpu.card_uuid(share.uuid), 0) for share in shares]
    if all(totals):
        smallest = min(share.memory / total for share, total in zip(shares, totals, strict=True))
        # JAX takes this part of each card when it starts; of less than the share, other allocations have some left.
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{min(smallest * 0.9, 0.9):.3f}"
    variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return variables

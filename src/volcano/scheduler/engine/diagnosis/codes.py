"""Codes: the fixed set of reasons why a job waits or a node is not used, each in one of five classes."""

from collections.abc import Mapping
from enum import StrEnum


class DiagnosisClass(StrEnum):
    """Event that has to happen before the job starts. Of several reasons, the first in this order counts."""

    NEVER = "NEVER"  # no node could host it, even if the cluster were empty: change the job or the nodes
    CONFIG = "CONFIG"  # something is missing, closed or malformed: correct it
    POLICY = "POLICY"  # a limit or an order that was configured holds it back
    CAPACITY = "CAPACITY"  # it fits once others finish
    IN_PROGRESS = "IN_PROGRESS"  # something is under way: wait a moment

    @property
    def rank(self) -> int:
        """0 for the class with the highest precedence."""
        return _RANKS[self]


_RANKS = {each: rank for rank, each in enumerate(DiagnosisClass)}


class Code(StrEnum):
    """Why a job waits. The value is the reason of the PodGroup's condition and a label of metrics."""

    # NEVER
    NODE_TOO_SMALL = "NodeTooSmall"
    CLUSTER_TOO_SMALL = "ClusterTooSmall"
    NODE_LABELS_MISMATCH = "NodeLabelsMismatch"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    DEVICES_TOO_SMALL = "DevicesTooSmall"
    NO_SUITABLE_NODE = "NoSuitableNode"
    # CONFIG
    MALFORMED = "Malformed"
    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_TREE_BROKEN = "QueueTreeBroken"
    OTHER_SCHEDULER = "OtherScheduler"
    UNKNOWN_TIER = "UnknownTier"
    SCHEDULING_GATED = "SchedulingGated"
    NO_NODES = "NoNodes"
    NODES_UNSCHEDULABLE = "NodesUnschedulable"
    NODE_GROUP_MISMATCH = "NodeGroupMismatch"
    VOLUME_CLAIM_PROBLEM = "VolumeClaimProblem"
    VOLUME_MISMATCH = "VolumeMismatch"
    DEVICE_CLAIM_PROBLEM = "DeviceClaimProblem"
    NUMA_MISMATCH = "NumaMismatch"
    PLUGIN_FAILED = "PluginFailed"
    # POLICY
    QUEUE_TOO_SMALL = "QueueTooSmall"
    QUEUE_CAPABILITY = "QueueCapability"
    QUEUE_SHARE = "QueueShare"
    QUEUE_ORDER = "QueueOrder"
    LOW_PRIORITY = "LowPriority"
    QUOTA_EXCEEDED = "QuotaExceeded"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    TOPOLOGY_LIMIT = "TopologyLimit"
    POD_AFFINITY = "PodAffinity"
    NODE_GROUP_LIMIT = "NodeGroupLimit"
    REVOCABLE_ZONE = "RevocableZone"
    RESERVED = "Reserved"
    REJECTED_BY_PLUGIN = "RejectedByPlugin"
    # CAPACITY
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    INSUFFICIENT_DEVICES = "InsufficientDevices"
    TOO_MANY_PODS = "TooManyPods"
    CLUSTER_OVERCOMMITTED = "ClusterOvercommitted"
    TOPOLOGY_FULL = "TopologyFull"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    PORTS_IN_USE = "PortsInUse"
    VOLUME_ATTACHMENTS = "VolumeAttachments"
    NODE_LOAD = "NodeLoad"
    # IN_PROGRESS
    WAITING_FOR_PODS = "WaitingForPods"
    EVICTING = "Evicting"
    BINDING = "Binding"
    NOT_TRIED_YET = "NotTriedYet"

    @property
    def diagnosis_class(self) -> DiagnosisClass:
        return CLASSES[self]

    @property
    def rank(self) -> int:
        """Precedence of the class: 0 for the highest."""
        return _RANK_OF_CODE[self]


# The class of each code, and what it means, for the generated reference.
MEANINGS: dict[DiagnosisClass, dict[Code, str]] = {
    DiagnosisClass.NEVER: {
        Code.NODE_TOO_SMALL: "A pod requests more of a resource than any node has that it may use.",
        Code.CLUSTER_TOO_SMALL: "The minimum of the job does not fit on the nodes, even if all were empty.",
        Code.NODE_LABELS_MISMATCH: "The nodes lack the labels that the pod asks for (nodeSelector, node affinity).",
        Code.TAINT_NOT_TOLERATED: "The nodes have taints that the pod does not tolerate.",
        Code.DEVICES_TOO_SMALL: "No node has cards that could provide what the pod asks for, even if unused.",
        Code.NO_SUITABLE_NODE: "Every node is excluded for good, for different reasons.",
    },
    DiagnosisClass.CONFIG: {
        Code.MALFORMED: "An object of the job cannot be read as written.",
        Code.POD_GROUP_NOT_FOUND: "The pods name a PodGroup that does not exist.",
        Code.QUEUE_NOT_FOUND: "The queue does not exist.",
        Code.QUEUE_CLOSED: "The queue is closed or closing.",
        Code.QUEUE_NOT_LEAF: "The queue has children; jobs are submitted to a queue without children.",
        Code.QUEUE_TREE_BROKEN: "The parents of the queues form a cycle, or their limits contradict each other.",
        Code.OTHER_SCHEDULER: "The pods name another scheduler, which decides about them.",
        Code.UNKNOWN_TIER: "The network topology asks for a tier that no HyperNode has.",
        Code.SCHEDULING_GATED: "Pods have scheduling gates that were not removed yet.",
        Code.NO_NODES: "The cluster has no nodes.",
        Code.NODES_UNSCHEDULABLE: "The nodes that could be used are cordoned or not ready.",
        Code.NODE_GROUP_MISMATCH: "No node belongs to a node group that the queue may use.",
        Code.VOLUME_CLAIM_PROBLEM: "A PersistentVolumeClaim is missing, being deleted or not bound.",
        Code.VOLUME_MISMATCH: "The volumes of the pod are not available on any node that could be used.",
        Code.DEVICE_CLAIM_PROBLEM: "A ResourceClaim or its device class is missing or belongs to another pod.",
        Code.NUMA_MISMATCH: "The NUMA policy of the pod is unknown, or no node offers it.",
        Code.PLUGIN_FAILED: "A plugin of the scheduler failed for this job; it is tried again.",
    },
    DiagnosisClass.POLICY: {
        Code.QUEUE_TOO_SMALL: "The minimum of the job exceeds the capability of its queue, even if it were empty.",
        Code.QUEUE_CAPABILITY: "The queue or an ancestor has reached its capability.",
        Code.QUEUE_SHARE: "The queue has all that it deserves.",
        Code.QUEUE_ORDER: "The queue serves jobs in their order, and another job is at its head.",
        Code.LOW_PRIORITY: "Jobs of higher priority in the queue hold what it needs, which only preemption could free.",
        Code.QUOTA_EXCEEDED: "The job exceeds a ResourceQuota of its namespace.",
        Code.BUDGET_EXHAUSTED: "The queue or an ancestor has used up its budget, which blocks new jobs.",
        Code.TOPOLOGY_LIMIT: "No domain of the allowed tier is large enough, even if it were empty.",
        Code.POD_AFFINITY: "The pod has to be near another pod, and no node is.",
        Code.NODE_GROUP_LIMIT: "The queue has reached its limit in the node groups that it may use.",
        Code.REVOCABLE_ZONE: "The nodes that are left are in a revocable zone that the pod may not use now.",
        Code.RESERVED: "Nodes are held back for a job that has waited longer, or for a reservation.",
        Code.REJECTED_BY_PLUGIN: "A plugin rejects the job; the message says why.",
    },
    DiagnosisClass.CAPACITY: {
        Code.INSUFFICIENT_RESOURCES: "The nodes that could be used do not have enough free resources now.",
        Code.INSUFFICIENT_DEVICES: "The nodes that could be used do not have enough free devices now.",
        Code.TOO_MANY_PODS: "The nodes that could be used have as many pods as they may have.",
        Code.CLUSTER_OVERCOMMITTED: "Jobs that were admitted before request all that the cluster has.",
        Code.TOPOLOGY_FULL: "No domain of the allowed tier has room now.",
        Code.POD_ANTI_AFFINITY: "Pods that this one has to keep apart from are on all nodes that could be used.",
        Code.POD_TOPOLOGY_SPREAD: "The pod would be spread too unevenly on the nodes that could be used.",
        Code.PORTS_IN_USE: "The host ports of the pod are in use on the nodes that could be used.",
        Code.VOLUME_ATTACHMENTS: "The nodes that could be used have as many volumes attached as they may have.",
        Code.NODE_LOAD: "The nodes that could be used are loaded above the threshold.",
    },
    DiagnosisClass.IN_PROGRESS: {
        Code.WAITING_FOR_PODS: "Pods of the gang do not exist yet.",
        Code.EVICTING: "The job has its nodes as soon as pods that are being deleted are gone.",
        Code.BINDING: "The nodes are chosen; the pods are being bound.",
        Code.NOT_TRIED_YET: "No cycle has reached the job yet.",
    },
}
CLASSES: dict[Code, DiagnosisClass] = {code: each for each, meanings in MEANINGS.items() for code in meanings}
_RANK_OF_CODE = {code: each.rank for code, each in CLASSES.items()}


def of_nodes(causes: Mapping[Code, int]) -> Code:
    """Code of a task that fits on no node, from the nodes by cause: that of the nodes which are closest to being
    usable, because one of them is enough. Where all are excluded for good and no cause holds for most of them, that is
    the code."""
    if not causes:
        return Code.NOT_TRIED_YET
    mildest = max(code.rank for code in causes)
    found = [code for code in causes if code.rank == mildest]
    first = max(found, key=lambda code: causes[code])
    if mildest == DiagnosisClass.NEVER.rank and causes[first] * 2 <= sum(causes.values()):
        return Code.NO_SUITABLE_NODE
    return first

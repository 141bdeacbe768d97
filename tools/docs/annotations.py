"""Annotations and labels under volcano.sh. A test compares the table with the names in the code."""

from typing import NamedTuple

from tools.docs.markdown import code, page, table


class Name(NamedTuple):
    """One annotation or label: on which objects, set by whom (`user` or a component), and its meaning."""

    name: str
    on: str
    set_by: str
    meaning: str


NAMES = (
    Name(
        "scheduling.volcano.sh/group-min-member",
        "pod, workload",
        "user",
        "minMember of the PodGroup that is made for plain pods or a workload",
    ),
    Name(
        "scheduling.volcano.sh/queue-allocation-gate",
        "pod",
        "user",
        "`true`: the pod gets a scheduling gate of this name, which is removed when its queue has room",
    ),
    Name(
        "scheduling.volcano.sh/queue-name",
        "pod, namespace, workload",
        "user",
        "queue of a plain pod or workload",
    ),
    Name(
        "volcano.sh/closed-by-parent",
        "Queue",
        "queue controller",
        "the queue was closed because its parent was, and opens with it",
    ),
    Name(
        "volcano.sh/controller-out-of-sync",
        "Job",
        "job controller",
        "the pods do not correspond to the spec yet",
    ),
    Name(
        "volcano.sh/cooldown-time",
        "pod (label or annotation)",
        "user",
        "`cdp`: the pod is not evicted for this long after its start",
    ),
    Name("volcano.sh/createdByJobFlow", "Job", "jobflow controller", "JobFlow that created the job"),
    Name(
        "volcano.sh/createdByJobTemplate",
        "Job",
        "jobflow controller",
        "JobTemplate that the job was created from",
    ),
    Name(
        "volcano.sh/cronjob-scheduled-timestamp",
        "Job",
        "cronjob controller",
        "time for which the job was scheduled",
    ),
    Name(
        "volcano.sh/dependency",
        "Job",
        "user",
        "jobs that have to end first: `afterok:NAME`, `afternotok:NAME` or `afterany:NAME`, separated by commas",
    ),
    Name(
        "volcano.sh/max-running-pods", "Job", "user", "how many of the job's pods exist at a time, for arrays"
    ),
    Name(
        "volcano.sh/user",
        "Job, CronJob, JobFlow, PodGroup, pod",
        "user, admission",
        "whose usage the pods are, for accounting and fair shares; admission sets it to the creator when it is absent",
    ),
    Name(
        "volcano.sh/user-shares",
        "Queue",
        "user",
        "`fairshare`: shares of users in this queue, such as `alice=3,bob=1`; users that are not named have 1",
    ),
    Name(
        "volcano.sh/walltime",
        "Job, PodGroup",
        "user, `vcctl submit --time`, job controller",
        "longest run time, such as `2h`, `90m` or `1-12:00:00`: for reservations and expected starts",
    ),
    Name(
        "volcano.sh/retries",
        "JobTemplate",
        "user",
        "how often a JobFlow creates a failed job of the template again, after 10 s, 20 s, ... up to 5 min",
    ),
    Name("volcano.sh/retry-number", "Job", "jobflow controller", "number of the retry, after a failure"),
    Name(
        "volcano.sh/enforce-walltime",
        "Queue",
        "user",
        "`true`: jobs of the queue are terminated when the walltime of their annotation is over",
    ),
    Name(
        "volcano.sh/notify",
        "Job, Queue",
        "user",
        "URL that notifications of the job, or of jobs of the queue without the annotation, are sent to",
    ),
    Name(
        "volcano.sh/notify-on",
        "Job, Queue",
        "user",
        "types of notifications: `Running`, `Completed`, `Failed`, `Evicted`, `Pending`; all if absent",
    ),
    Name(
        "volcano.sh/notify-pending-after",
        "Job, Queue",
        "user",
        "how long a job waits before the notification `Pending`, default `30m`",
    ),
    Name(
        "volcano.sh/notify-secret",
        "Job, Queue",
        "user",
        "Secret whose key `key` signs notifications: a name on Jobs, `<namespace>/<name>` on queues",
    ),
    Name(
        "volcano.sh/notified",
        "Job",
        "notification controller",
        "JSON: the transitions that were notified of last, by type",
    ),
    Name(
        "volcano.sh/budget",
        "Queue",
        "user",
        "what the queue may use in a day, week or month, such as `nvidia.com/gpu=1000h/month`; several are separated "
        "by commas",
    ),
    Name(
        "volcano.sh/budget-action",
        "Queue",
        "user",
        "`block`: no new job starts while a budget is used up; `warn` (the default): an event and a condition",
    ),
    Name("volcano.sh/hierarchy", "Queue", "user", "`drf`: path of the queue, such as `root/research`"),
    Name("volcano.sh/hierarchy-weights", "Queue", "user", "`drf`: weights along the path, such as `1/2`"),
    Name(
        "volcano.sh/host-directory",
        "PersistentVolume",
        "vcctl submit",
        "the volume is a directory of the host: it is deleted with its claim, the directory stays",
    ),
    Name(
        "volcano.sh/jdb-max-unavailable",
        "Job, PodGroup",
        "user",
        "how many pods may be evicted at the same time, number or percentage",
    ),
    Name(
        "volcano.sh/jdb-min-available",
        "Job, PodGroup",
        "user",
        "how many pods have to stay available, number or percentage",
    ),
    Name(
        "volcano.sh/job-forwarding",
        "Job, pod",
        "job controller",
        "the job has a task that is forwarded to other clusters",
    ),
    Name("volcano.sh/job-name", "pod (label and annotation)", "job controller", "job of a pod"),
    Name("volcano.sh/job-namespace", "pod (label)", "job controller", "namespace of the pod's job"),
    Name("volcano.sh/job-retry-count", "pod", "job controller", "retry of the job that the pod belongs to"),
    Name("volcano.sh/job-type", "Job", "user", "type in `vcctl job list`, default Batch"),
    Name(
        "volcano.sh/job-version",
        "pod",
        "job controller",
        "version of the job that the pod belongs to; raised by a restart",
    ),
    Name("volcano.sh/local", "StorageClass", "embedded cluster", "provisioner of volumes on local nodes"),
    Name(
        "volcano.sh/local-directory",
        "PersistentVolume (finalizer)",
        "kubelet",
        "the directory of the volume has not been deleted yet",
    ),
    Name(
        "volcano.sh/network-topology-highest-tier",
        "pod, workload",
        "user",
        "highestTierAllowed of the PodGroup made for it",
    ),
    Name(
        "volcano.sh/network-topology-mode",
        "pod, workload",
        "user",
        "`hard` or `soft`, of the PodGroup made for it",
    ),
    Name(
        "volcano.sh/network-topology-source",
        "HyperNode (label)",
        "hypernode controller",
        "discovery source of the HyperNode; `simulated` for those of `volcano up --topology`",
    ),
    Name("volcano.sh/nodegroup-name", "node (label)", "user", "`nodegroup`: group of the node"),
    Name(
        "volcano.sh/nodegroup-resource-limits", "Queue", "user", "`nodegroup`: limits of the queue in a group"
    ),
    Name(
        "volcano.sh/numa-topology-policy",
        "Job, task, pod",
        "user",
        "`numa-aware`: `none`, `best-effort`, `restricted` or `single-numa-node`; copied to pods",
    ),
    Name(
        "volcano.sh/offline-job-evicting",
        "node",
        "node agent",
        "pods that may be evicted are not placed here",
    ),
    Name(
        "volcano.sh/oversubscription",
        "node (label)",
        "node agent",
        "the node offers oversubscribed resources",
    ),
    Name("volcano.sh/oversubscription-cpu", "node", "node agent", "oversubscribed CPU"),
    Name("volcano.sh/oversubscription-memory", "node", "node agent", "oversubscribed memory"),
    Name(
        "volcano.sh/overuse-tolerance",
        "Queue",
        "user",
        "fraction above the share up to which nothing is reclaimed",
    ),
    Name(
        "volcano.sh/partition-id",
        "pod (label)",
        "job controller",
        "partition of a task with a partitionPolicy",
    ),
    Name(
        "volcano.sh/preemptable",
        "pod, PodGroup, Job (label or annotation)",
        "user",
        "whether the pods may be evicted",
    ),
    Name("volcano.sh/queue-name", "pod", "job controller", "queue of the pod's job"),
    Name(
        "volcano.sh/queue-reservation-timeout",
        "Job, PodGroup",
        "user",
        "how long pods whose queue-admission gate was removed hold room of the queue without a node",
    ),
    Name(
        "volcano.sh/resource-group", "pod, namespace", "user", "resource group of the admission configuration"
    ),
    Name(
        "volcano.sh/colocation-config",
        "pod",
        "colocation-config-controller",
        "memory limits of the ColocationConfiguration that selects the pod",
    ),
    Name(
        "volcano.sh/colocation-config-name",
        "pod",
        "colocation-config-controller",
        "name of the ColocationConfiguration that selects the pod",
    ),
    Name(
        "volcano.sh/resource-strategy-scoring-type",
        "pod",
        "user",
        "`resource-strategy-fit`: `MostAllocated` or `LeastAllocated` for this pod",
    ),
    Name(
        "volcano.sh/resource-strategy-weight",
        "pod",
        "user",
        '`resource-strategy-fit`: weights of resources for this pod, such as `{"cpu": 1}`',
    ),
    Name("volcano.sh/revocable-zone", "pod, node (label)", "user", "`tdm`: zone of revocable nodes"),
    Name("volcano.sh/sim-duration", "pod", "user", "how long the pod runs on a simulated node"),
    Name("volcano.sh/sim-exit-code", "pod", "user", "exit code of the pod on a simulated node"),
    Name("volcano.sh/sim-stop-duration", "pod", "user", "how long the pod takes to stop on a simulated node"),
    Name(
        "volcano.sh/sim-usage",
        "pod",
        "user",
        "usage of the pod on a simulated node, such as `cpu=500m,memory=1Gi`; without it, its requests",
    ),
    Name("volcano.sh/simulated", "node (label)", "embedded cluster", "the node does not execute pods"),
    Name("volcano.sh/sla-waiting-time", "Job, PodGroup", "user", "`sla`: longest waiting time"),
    Name(
        "volcano.sh/task-depends-on",
        "PodGroup",
        "job controller",
        "tasks whose pods wait for other tasks, as JSON",
    ),
    Name("volcano.sh/task-index", "pod", "job controller", "index of the pod in its task"),
    Name("volcano.sh/task-priority", "pod", "user", "order of the pod among the pods of its job"),
    Name("volcano.sh/task-spec", "pod (label and annotation)", "job controller", "task of the pod"),
    Name(
        "volcano.sh/task-topology-affinity",
        "Job, PodGroup",
        "user",
        "`task-topology`: tasks that belong on one node",
    ),
    Name(
        "volcano.sh/task-topology-anti-affinity",
        "Job, PodGroup",
        "user",
        "`task-topology`: tasks that belong on different nodes",
    ),
    Name(
        "volcano.sh/task-topology-task-order",
        "Job, PodGroup",
        "user",
        "`task-topology`: order in which tasks are placed",
    ),
    Name(
        "volcano.sh/topology-decision",
        "pod",
        "scheduler",
        "`numa-aware`: CPUs of each NUMA node chosen for the pod, as JSON; its node prefers them",
    ),
    Name("volcano.sh/template-uid", "pod", "job controller", "template that the pod was created from"),
    Name(
        "volcano.sh/job-allocated-hypernode",
        "PodGroup",
        "scheduler",
        "HyperNode that contains the pods of a job with `networkTopology`",
    ),
    Name(
        "volcano.sh/sub-group-allocated-hypernodes",
        "PodGroup",
        "scheduler",
        "the same for each sub-group with `networkTopology`, as JSON: sub-group to HyperNode",
    ),
    Name(
        "volcano.sh/gpu-memory",
        "pod, node (resource)",
        "user",
        "`deviceshare`: memory of one shared card, in MiB",
    ),
    Name(
        "volcano.sh/gpu-number",
        "pod, node (resource)",
        "user",
        "`deviceshare`: number of cards of the pod alone",
    ),
    Name("volcano.sh/gpu-index", "pod", "scheduler", "`deviceshare`: cards of the pod, such as `0,2`"),
    Name("volcano.sh/predicate-time", "pod", "scheduler", "when the cards were chosen, in Unix nanoseconds"),
    Name("volcano.sh/gpu-assigned", "pod", "device plugin", "`true`: the pod got its cards"),
    Name("volcano.sh/gpu-unhealthy-ids", "node", "device plugin", "cards that are not used, such as `1,3`"),
    Name("volcano.sh/vgpu-number", "pod, node (resource)", "user", "`deviceshare`: cards of a container"),
    Name(
        "volcano.sh/vgpu-memory",
        "pod, node (resource)",
        "user",
        "`deviceshare`: memory per card in MiB, divided by gpuMemoryFactor",
    ),
    Name(
        "volcano.sh/vgpu-memory-percentage",
        "pod (resource)",
        "user",
        "`deviceshare`: memory per card in percent, instead of `volcano.sh/vgpu-memory`",
    ),
    Name(
        "volcano.sh/vgpu-cores",
        "pod, node (resource)",
        "user",
        "`deviceshare`: compute per card in percent; 100 is a card of its own",
    ),
    Name(
        "volcano.sh/node-vgpu-register",
        "node",
        "device plugin",
        "cards: `uuid,split,memory,type,healthy,mode:` for each",
    ),
    Name(
        "volcano.sh/node-vgpu-handshake", "node", "device plugin", "time of the last registration; not read"
    ),
    Name("volcano.sh/vgpu-use-gpuuuid", "pod", "user", "only these cards, separated by commas"),
    Name("volcano.sh/vgpu-nouse-gpuuuid", "pod", "user", "none of these cards; wins over the former"),
    Name("volcano.sh/vgpu-mode", "pod", "user", "only cards of this mode: `hami-core` or `mig`"),
    Name(
        "volcano.sh/vgpu-podgroup-policy", "pod", "user", "`spread`: no two pods of the PodGroup share a card"
    ),
    Name("volcano.sh/vgpu-node", "pod", "scheduler", "node whose cards were assigned"),
    Name("volcano.sh/vgpu-time", "pod", "scheduler", "when cards were assigned, in Unix seconds"),
    Name(
        "volcano.sh/vgpu-ids-new",
        "pod",
        "scheduler",
        "assigned cards: `uuid,NVIDIA,memory,cores:` for each, containers separated by `;`",
    ),
    Name(
        "volcano.sh/devices-to-allocate",
        "pod",
        "scheduler",
        "assigned cards not handed out to containers yet",
    ),
    Name(
        "volcano.sh/bind-phase",
        "pod",
        "scheduler",
        "`allocating`, then `success` or `failed` by the device plugin",
    ),
    Name("volcano.sh/bind-time", "pod", "scheduler", "when the pod was bound, in Unix seconds"),
)


def annotations_page() -> str:
    rows = [(code(name.name), name.on, name.set_by, name.meaning) for name in sorted(NAMES)]
    return page(
        "Annotations and labels",
        "Annotations, unless the second column says otherwise.",
        table(["name", "on", "set by", "meaning"], rows),
    )

"""Labels, annotations and well-known names of Volcano."""

SCHEDULER_NAME = "volcano"
DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
SYSTEM_NAMESPACE = "volcano-system"
# The ConfigMap with the configuration of the scheduler, and its key.
SCHEDULER_CONFIG_MAP = "volcano-scheduler-configmap"
SCHEDULER_CONFIG_KEY = "volcano-scheduler.conf"
LOCAL_CONTROL_PLANE_NODE = "volcano-control-plane-0"  # of a cluster of `volcano up`

TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
JOB_NAME = "volcano.sh/job-name"
USER = "volcano.sh/user"  # of jobs, PodGroups and pods: whose usage theirs is
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE_NAME = "volcano.sh/queue-name"
JOB_VERSION = "volcano.sh/job-version"
DEPENDS_ON = "volcano.sh/task-depends-on"  # on PodGroups: JSON of tasks to the tasks their pods wait for
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE_UID = "volcano.sh/template-uid"
PARTITION_ID = "volcano.sh/partition-id"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
ALLOCATED_HYPERNODE = "volcano.sh/job-allocated-hypernode"
SUB_GROUP_HYPERNODES = "volcano.sh/sub-group-allocated-hypernodes"  # JSON of sub-groups to their hypernodes
GROUP_NAME = "scheduling.k8s.io/group-name"
POD_QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
# On Jobs and PodGroups: for how long pods whose gate was removed hold room of the queue without a node.
QUEUE_RESERVATION_TIMEOUT = "volcano.sh/queue-reservation-timeout"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
STRATEGY_SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
STRATEGY_WEIGHT = "volcano.sh/resource-strategy-weight"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME = "volcano.sh/sla-waiting-time"
NUMA_POLICY = "volcano.sh/numa-topology-policy"
NUMA_DECISION = "volcano.sh/topology-decision"
OVERUSE_TOLERANCE = "volcano.sh/overuse-tolerance"
JOB_DEPENDENCY = "volcano.sh/dependency"
MAX_RUNNING_PODS = "volcano.sh/max-running-pods"
USER_SHARES = "volcano.sh/user-shares"  # on queues: shares of users for fairshare, "alice=3,bob=1"
NOTIFY = "volcano.sh/notify"  # on Jobs and queues: URL that notifications are sent to
NOTIFY_ON = "volcano.sh/notify-on"  # types of notifications, "Completed,Failed"; all if absent
NOTIFY_SECRET = "volcano.sh/notify-secret"  # Secret whose key `key` signs notifications
NOTIFY_PENDING_AFTER = "volcano.sh/notify-pending-after"  # how long a job waits before a notification
NOTIFIED = "volcano.sh/notified"  # JSON of types of notifications to the transitions that were handled last
WALLTIME = "volcano.sh/walltime"
ENFORCE_WALLTIME = "volcano.sh/enforce-walltime"  # on queues
BUDGET = "volcano.sh/budget"  # of queues
BUDGET_ACTION = "volcano.sh/budget-action"  # of queues: warn or block
BUDGET_WARNING, BUDGET_EXHAUSTED = "BudgetWarning", "BudgetExhausted"  # conditions of queues
SIM_DURATION = "volcano.sh/sim-duration"
SIM_EXIT_CODE = "volcano.sh/sim-exit-code"
SIM_USAGE = "volcano.sh/sim-usage"
SIMULATED = "volcano.sh/simulated"
# On PersistentVolumes of a directory of a host: the volume is deleted with its claim, the directory stays.
HOST_DIRECTORY = "volcano.sh/host-directory"

"""Events and conditions. A test compares the reasons with those in the code."""

from tools.docs.markdown import code, page, table

# Reason, type, object, meaning.
EVENTS = (
    ("BackOff", "Warning", "pod", "a container is restarted after a pause, because it failed before"),
    ("CloseQueue", "Normal", "Queue", "the queue was closed, or could not be"),
    ("Completed", "Normal", "batch/v1 Job", "the job completed"),
    ("Created", "Normal", "pod, JobFlow", "a container, or a job of the flow, was created"),
    ("Evict", "Warning", "pod, PodGroup", "the scheduler evicted the pod; the message says for which job"),
    ("DependencyNeverSatisfied", "Warning", "Job", "a job it depends on ended otherwise; it will not start"),
    ("DependencyPending", "Warning", "Job", "a job it depends on has not ended yet"),
    ("ExecuteAction", "Normal", "Job", "an action was executed, because of a policy or a Command"),
    ("Failed", "Warning", "pod", "a container could not be created or started"),
    ("FailedCreate", "Warning", "workload", "a pod could not be created"),
    ("FailedHostPort", "Warning", "pod", "a host port is in use"),
    ("FailedKillPod", "Warning", "pod", "a process of the pod could not be ended"),
    ("FailedMount", "Warning", "pod", "a volume is not ready; the message says which and why"),
    ("FailedPostStartHook", "Warning", "pod", "the postStart hook failed"),
    ("FailedPreStopHook", "Warning", "pod", "the preStop hook failed"),
    (
        "FailedPrepareDynamicResources",
        "Warning",
        "pod",
        "a resource claim is not allocated, or not reserved for the pod",
    ),
    (
        "FailedResourceClaimCreation",
        "Warning",
        "pod",
        "a claim could not be created from its template",
    ),
    ("FailedScheduling", "Warning", "pod", "why the pod has no node yet"),
    ("ForbidConcurrent", "Normal", "CronJob", "a run was left out because the last one is still active"),
    ("ForeignJob", "Warning", "CronJob, JobFlow", "a job of that name exists and belongs to another owner"),
    ("HealthyDevice", "Normal", "node", "a GPU works again and is allocated"),
    ("InvalidSchedule", "Warning", "CronJob", "the schedule cannot be parsed"),
    ("Killing", "Normal", "pod", "a container is being stopped"),
    ("LimitedRuntime", "Normal", "node", "what the runtime of a local node does not isolate"),
    (
        "LoadMetricsUnavailable",
        "Warning",
        "Queue",
        "on the default queue: the source of the load of nodes does not answer, or lacks nodes",
    ),
    ("NodeNotReady", "Normal", "node, pod", "the node does not report any more"),
    ("NodeRestarted", "Warning", "pod, its controller", "the pod ended with its local node, and is replaced"),
    ("OpenQueue", "Normal", "Queue", "the queue was opened, or could not be"),
    ("PluginError", "Warning", "Job", "a job plugin is unknown, or rejected its arguments"),
    ("PodGroupPending", "Warning", "Job", "the gang has not been admitted yet"),
    ("Pulled", "Normal", "pod", "the image is present, or is not used by this runtime"),
    ("RegisteredNode", "Normal", "node", "the node was registered"),
    ("RemovingNode", "Normal", "node", "the node was deleted"),
    ("ReplaceConcurrent", "Normal", "CronJob", "the active job was deleted in favour of a new run"),
    (
        "ResourceStrategyIgnored",
        "Warning",
        "pod",
        "its annotations for `resource-strategy-fit` cannot be used",
    ),
    ("SawCompletedJob", "Normal", "CronJob", "a job ended"),
    ("StaleReference", "Warning", "CronJob", "an active job in the status no longer exists"),
    ("Started", "Normal", "pod", "a container was started"),
    ("SuccessfulCreate", "Normal", "workload, CronJob", "a pod or job was created"),
    ("SuccessfulDelete", "Normal", "workload, CronJob", "a pod or job was deleted"),
    ("TemplateNotFound", "Warning", "JobFlow", "a JobTemplate does not exist"),
    (
        "TooManyMissedTimes",
        "Warning",
        "CronJob",
        "more than 100 runs were missed; set startingDeadlineSeconds",
    ),
    ("Unhealthy", "Warning", "pod", "a probe failed"),
    ("UnhealthyDevice", "Warning", "node, pod", "a GPU failed; it is not allocated any more"),
    ("Unschedulable", "Warning", "PodGroup", "why the gang cannot start yet"),
    ("NetworkTopology", "Warning", "PodGroup", "`mode: hard` has no highest tier and is treated as `soft`"),
    ("UnsupportedSchedule", "Warning", "CronJob", "the schedule contains a time zone; use `timeZone`"),
    (
        "Cycle",
        "Warning",
        "HyperNode",
        "it is below one of its own members; that link is left out of the tree",
    ),
    ("SecondParent", "Warning", "HyperNode", "a member has another parent already; the link is left out"),
    (
        "TierNotAboveMember",
        "Warning",
        "HyperNode",
        "a member has the same or a higher tier; the link is left out",
    ),
    ("TierNameConflict", "Warning", "HyperNode", "its tier name means another tier elsewhere"),
    ("UnsupportedMember", "Warning", "HyperNode", "a member selects nothing; HyperNodes are listed by name"),
    ("InvalidMember", "Warning", "HyperNode", "the pattern of a member is not valid"),
    ("NameTaken", "Warning", "HyperNode", "a discovery source needs the name of this HyperNode"),
    (
        "DiscoveryDisabled",
        "Normal",
        "HyperNode",
        "its discovery source was disabled; how to delete what is left",
    ),
    (
        "DiscoveryConfigRejected",
        "Warning",
        "ConfigMap",
        "an entry of the discovery configuration is not valid",
    ),
    ("DiscoveryFailed", "Warning", "ConfigMap", "a UFM server could not be polled; retried"),
    (
        "TopologyAffinityError",
        "Warning",
        "pod",
        "the CPUs of the pod do not satisfy the topology manager of its node; the pod has failed",
    ),
    ("UnexpectedAdmissionError", "Warning", "pod", "too few CPUs are free for the pod; it has failed"),
)
# Object, type, meaning.
CONDITIONS = (
    ("PodGroup", "Unschedulable", "why the gang waits: the code of the diagnosis as reason, and the message of the event"),
    ("PodGroup", "Scheduled", "the gang has its minimum of members"),
    ("pod", "PodScheduled", "False with the reason `Unschedulable` while the pod has no node"),
    ("pod", "DisruptionTarget", "the pod was evicted; reason `PreemptionByScheduler`"),
    ("Job", "the phases", "one condition per phase that the job has reached, with its time"),
    (
        "HyperNode",
        "Ready",
        "whether it is in the topology tree; False with the reason and message of the event",
    ),
)


def events_page() -> str:
    return page(
        "Events and conditions",
        "Events of the scheduler, the controllers of Volcano's kinds, and local nodes. `kubectl describe` and "
        "`vcctl job describe` show them.",
        table(["reason", "type", "about", "meaning"], ((code(row[0]), *row[1:]) for row in EVENTS)),
        "## Conditions\n\n"
        + table(["object", "condition", "meaning"], ((row[0], code(row[1]), row[2]) for row in CONDITIONS)),
    )

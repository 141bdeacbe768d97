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
    ("InvalidSchedule", "Warning", "CronJob", "the schedule cannot be parsed"),
    ("Killing", "Normal", "pod", "a container is being stopped"),
    ("LimitedRuntime", "Normal", "node", "what the runtime of a local node does not isolate"),
    ("NodeNotReady", "Normal", "node, pod", "the node does not report any more"),
    ("NodeRestarted", "Warning", "pod, its controller", "the pod ended with its local node, and is replaced"),
    ("OpenQueue", "Normal", "Queue", "the queue was opened, or could not be"),
    ("PluginError", "Warning", "Job", "a job plugin is unknown, or rejected its arguments"),
    ("PodGroupPending", "Warning", "Job", "the gang has not been admitted yet"),
    ("Pulled", "Normal", "pod", "the image is present, or is not used by this runtime"),
    ("RegisteredNode", "Normal", "node", "the node was registered"),
    ("RemovingNode", "Normal", "node", "the node was deleted"),
    ("ReplaceConcurrent", "Normal", "CronJob", "the active job was deleted in favour of a new run"),
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
    ("Unschedulable", "Warning", "PodGroup", "why the gang cannot start yet"),
    ("UnsupportedSchedule", "Warning", "CronJob", "the schedule contains a time zone; use `timeZone`"),
)
# Object, type, meaning.
CONDITIONS = (
    ("PodGroup", "Unschedulable", "why the gang waits; reason and message as in the event"),
    ("PodGroup", "Scheduled", "the gang has its minimum of members"),
    ("pod", "PodScheduled", "False with the reason `Unschedulable` while the pod has no node"),
    ("pod", "DisruptionTarget", "the pod was evicted; reason `PreemptionByScheduler`"),
    ("Job", "the phases", "one condition per phase that the job has reached, with its time"),
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

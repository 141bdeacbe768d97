"""Print handlers for Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and related kinds."""

from typing import Any

from volcano.apiserver.endpoints.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Printer,
    age,
    containers_text,
    integers,
    labels_text,
    selector_text,
    text,
    wide,
)
from volcano.apiserver.interfaces import Column
from volcano.kube.api.duration import human_duration, since
from volcano.kube.api.fields import at, count, is_true, items, name_of, number, wall_time
from volcano.kube.api.manifest import Manifest


def _template(manifest: Manifest) -> Any:
    return at(manifest, "spec", "template", "spec", default={})


def _images_and_selector(manifest: Manifest) -> list[Any]:
    return [*containers_text(_template(manifest)), selector_text(at(manifest, "spec", "selector"))]


def _ready_replicas(manifest: Manifest) -> str:
    return f"{number(manifest, 'status', 'readyReplicas')}/{number(manifest, 'spec', 'replicas')}"


def print_deployment(deployment: Manifest, now: float) -> list[Any]:
    return [
        name_of(deployment),
        _ready_replicas(deployment),
        number(deployment, "status", "updatedReplicas"),
        number(deployment, "status", "availableReplicas"),
        age(deployment, now),
        *_images_and_selector(deployment),
    ]


def print_replica_set(replica_set: Manifest, now: float) -> list[Any]:
    return [*_replica_counts(replica_set, now), *_images_and_selector(replica_set)]


def print_replication_controller(controller: Manifest, now: float) -> list[Any]:
    images = containers_text(_template(controller))
    return [*_replica_counts(controller, now), *images, labels_text(at(controller, "spec", "selector"))]


def _replica_counts(manifest: Manifest, now: float) -> list[Any]:
    return [
        name_of(manifest),
        number(manifest, "spec", "replicas"),
        number(manifest, "status", "replicas"),
        number(manifest, "status", "readyReplicas"),
        age(manifest, now),
    ]


def print_stateful_set(stateful_set: Manifest, now: float) -> list[Any]:
    images = containers_text(_template(stateful_set))
    return [name_of(stateful_set), _ready_replicas(stateful_set), age(stateful_set, now), *images]


DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def print_daemon_set(daemon_set: Manifest, now: float) -> list[Any]:
    return [
        name_of(daemon_set),
        *(number(daemon_set, "status", field) for field in DAEMON_COUNTS),
        labels_text(at(_template(daemon_set), "nodeSelector")),
        age(daemon_set, now),
        *_images_and_selector(daemon_set),
    ]


def print_job(job: Manifest, now: float) -> list[Any]:
    return [
        name_of(job),
        _job_status(job),
        _completions(job),
        _job_duration(job, now),
        age(job, now),
        *_images_and_selector(job),
    ]


def _job_status(job: Manifest) -> str:
    for condition in ("Complete", "Failed"):
        if is_true(job, condition):
            return condition
    if at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job, condition):
            return condition
    return "Running"


def _completions(job: Manifest) -> str:
    succeeded = number(job, "status", "succeeded")
    if at(job, "spec", "completions") is not None:
        return f"{succeeded}/{number(job, 'spec', 'completions')}"
    parallelism = number(job, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Manifest, now: float) -> str:
    started = wall_time(at(job, "status", "startTime"))
    if started is None:
        return ""
    ended = wall_time(at(job, "status", "completionTime"))
    return human_duration((now if ended is None else ended) - started)


def print_cron_job(cron_job: Manifest, now: float) -> list[Any]:
    suspend = at(cron_job, "spec", "suspend")
    last = at(cron_job, "status", "lastScheduleTime")
    job_spec = at(cron_job, "spec", "jobTemplate", "spec", default={})
    return [
        name_of(cron_job),
        at(cron_job, "spec", "schedule", default=""),
        at(cron_job, "spec", "timeZone", default=NONE),
        UNSET if suspend is None else str(bool(suspend)),
        count(cron_job, "status", "active"),
        since(last, now) if last else NONE,
        age(cron_job, now),
        *containers_text(at(job_spec, "template", "spec")),
        selector_text(at(job_spec, "selector")),
    ]


def print_controller_revision(revision: Manifest, now: float) -> list[Any]:
    owners = [owner for owner in items(revision, "metadata", "ownerReferences") if owner.get("controller")]
    return [
        name_of(revision),
        _owner(owners[0]) if owners else NONE,
        number(revision, "revision"),
        age(revision, now),
    ]


def _owner(owner: Any) -> str:
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    kind = str(owner.get("kind", "")).lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


def print_pod_template(template: Manifest, now: float) -> list[Any]:
    labels = at(template, "template", "metadata", "labels")
    return [name_of(template), *containers_text(at(template, "template", "spec")), labels_text(labels)]


def print_disruption_budget(budget: Manifest, now: float) -> list[Any]:
    return [
        name_of(budget),
        str(at(budget, "spec", "minAvailable", default="N/A")),
        str(at(budget, "spec", "maxUnavailable", default="N/A")),
        number(budget, "status", "disruptionsAllowed"),
        age(budget, now),
    ]


IMAGES = wide("Containers", "Images")
IMAGES_AND_SELECTOR = wide("Containers", "Images", "Selector")
REPLICAS = (NAME, *integers("Desired", "Current", "Ready"), AGE, *IMAGES_AND_SELECTOR)

DEPLOYMENT_PRINTER = Printer(
    (NAME, *text("Ready", "Up-to-date", "Available"), AGE, *IMAGES_AND_SELECTOR), print_deployment
)
REPLICA_SET_PRINTER = Printer(REPLICAS, print_replica_set)
REPLICATION_CONTROLLER_PRINTER = Printer(REPLICAS, print_replication_controller)
STATEFUL_SET_PRINTER = Printer((NAME, *text("Ready"), AGE, *IMAGES), print_stateful_set)
DAEMON_SET_PRINTER = Printer(
    (
        NAME,
        *integers("Desired", "Current", "Ready", "Up-to-date", "Available"),
        *text("Node Selector"),
        AGE,
        *IMAGES_AND_SELECTOR,
    ),
    print_daemon_set,
)
JOB_PRINTER = Printer(
    (NAME, *text("Status", "Completions", "Duration"), AGE, *IMAGES_AND_SELECTOR), print_job
)
CRON_JOB_PRINTER = Printer(
    (
        NAME,
        *text("Schedule", "Timezone"),
        Column("Suspend", type="boolean"),
        *integers("Active"),
        *text("Last Schedule"),
        AGE,
        *IMAGES_AND_SELECTOR,
    ),
    print_cron_job,
)
CONTROLLER_REVISION_PRINTER = Printer((NAME, *text("Controller", "Revision"), AGE), print_controller_revision)
POD_TEMPLATE_PRINTER = Printer((NAME, *text("Containers", "Images", "Pod Labels")), print_pod_template)
DISRUPTION_BUDGET_PRINTER = Printer(
    (NAME, *text("Min Available", "Max Unavailable"), *integers("Allowed Disruptions"), AGE),
    print_disruption_budget,
)

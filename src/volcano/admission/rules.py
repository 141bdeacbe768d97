"""Which defaults and checks apply to which kind and operation, and the two functions that apply them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from volcano.admission.jobdefaults import default_job
from volcano.admission.jobs import check_new_job
from volcano.admission.jobupdates import check_job_update
from volcano.admission.others import (
    check_cron_job,
    check_hyper_node,
    check_job_flow,
    check_pod,
    check_pod_group,
    default_pod,
    default_pod_group,
)
from volcano.admission.queues import check_queue, check_queue_deletion, default_queue
from volcano.admission.review import Complaint, Complaints, Defaults, Request
from volcano.kube.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Service:
    """One webhook path: what it serves and what it does."""

    path: str
    name: str
    kind: Kind
    operations: tuple[str, ...]
    defaults: Defaults | None = None
    complaints: Mapping[str, Complaints] | None = None

    @property
    def mutating(self) -> bool:
        return self.defaults is not None


SERVICES: tuple[Service, ...] = (
    Service("/jobs/mutate", "mutatejob.volcano.sh", JOB, ("CREATE", "UPDATE"), default_job),
    Service(
        "/jobs/validate",
        "validatejob.volcano.sh",
        JOB,
        ("CREATE", "UPDATE"),
        complaints={"CREATE": check_new_job, "UPDATE": check_job_update},
    ),
    Service("/pods/mutate", "mutatepod.volcano.sh", POD, ("CREATE",), default_pod),
    Service("/pods/validate", "validatepod.volcano.sh", POD, ("CREATE",), complaints={"CREATE": check_pod}),
    Service("/podgroups/mutate", "mutatepodgroup.volcano.sh", POD_GROUP, ("CREATE",), default_pod_group),
    Service(
        "/podgroups/validate",
        "validatepodgroup.volcano.sh",
        POD_GROUP,
        ("CREATE",),
        complaints={"CREATE": check_pod_group},
    ),
    Service("/queues/mutate", "mutatequeue.volcano.sh", QUEUE, ("CREATE",), default_queue),
    Service(
        "/queues/validate",
        "validatequeue.volcano.sh",
        QUEUE,
        ("CREATE", "UPDATE", "DELETE"),
        complaints={"CREATE": check_queue, "UPDATE": check_queue, "DELETE": check_queue_deletion},
    ),
    Service(
        "/jobflows/validate",
        "validatejobflow.volcano.sh",
        JOB_FLOW,
        ("CREATE", "UPDATE"),
        complaints={"CREATE": check_job_flow, "UPDATE": check_job_flow},
    ),
    Service(
        "/hypernodes/validate",
        "validatehypernode.volcano.sh",
        HYPER_NODE,
        ("CREATE", "UPDATE"),
        complaints={"CREATE": check_hyper_node, "UPDATE": check_hyper_node},
    ),
    Service(
        "/cronjobs/validate",
        "validatecronjob.volcano.sh",
        CRON_JOB,
        ("CREATE", "UPDATE"),
        complaints={"CREATE": check_cron_job, "UPDATE": check_cron_job},
    ),
)
# What a rule meets in a text where it expects a list, and the like: rules are written for what passed the schema.
MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
BY_PATH: Mapping[str, Service] = {service.path: service for service in SERVICES}
_ABOUT: Mapping[Kind, tuple[Service, ...]] = {
    kind: tuple(service for service in SERVICES if service.kind == kind)
    for kind in {service.kind for service in SERVICES}
}


def complete(request: Request) -> Manifest | None:
    """The object with its defaults; unchanged where no defaults apply."""
    manifest = request.new
    for service in _ABOUT.get(request.kind, ()):
        if service.defaults and request.operation in service.operations:
            manifest = completed(
                service, request if manifest is request.new else replace(request, new=manifest)
            )
    return manifest


def complaints(request: Request) -> list[Complaint]:
    """Everything wrong with the write under review."""
    return [
        complaint
        for service in _ABOUT.get(request.kind, ())
        if service.complaints and request.operation in service.complaints
        for complaint in judged(service, request)
    ]


def completed(service: Service, request: Request) -> Manifest | None:
    """The object with one service's defaults. What has not the shape of its kind is left to the schema to refuse."""
    assert service.defaults is not None
    try:
        return service.defaults(request)
    except MISSHAPEN:
        return request.new


def judged(service: Service, request: Request) -> list[Complaint]:
    """One service's complaints. What has not the shape of its kind is refused as that."""
    assert service.complaints is not None
    try:
        return list(service.complaints[request.operation](request))
    except MISSHAPEN as error:
        text = (
            f"{request.kind.kind} {request.key} has not the shape of its kind and cannot be judged: {error}"
        )
        return [Complaint("", text)]


def governed(kind: Kind) -> bool:
    """Whether any rule is about this kind."""
    return kind in _ABOUT

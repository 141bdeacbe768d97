"""Table of mutators and validators by kind and operation, and the functions that apply them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from volcano.kube.api.kinds import (
    CRON_JOB,
    HYPER_NODE,
    JOB,
    JOB_FLOW,
    NODE_RESERVATION,
    POD,
    POD_GROUP,
    QUEUE,
    Kind,
)
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.hypernode import check_hyper_node, topology_warnings, warn_hyper_node
from volcano.webhooks.job.defaults import default_job
from volcano.webhooks.job.numa_warnings import job_warnings, pod_warnings
from volcano.webhooks.job.updates import check_job_update
from volcano.webhooks.job.validation import check_new_job
from volcano.webhooks.node_reservation import check_node_reservation
from volcano.webhooks.other_kinds import (
    check_cron_job,
    check_job_flow,
    check_pod,
    check_pod_group,
    default_pod,
    default_pod_group,
)
from volcano.webhooks.queue import check_queue, check_queue_deletion, default_queue
from volcano.webhooks.review import AdmissionRequest, Mutator, Validator, Violation, Warner
from volcano.webhooks.users import set_user


@dataclass(frozen=True, slots=True)
class AdmissionService:
    """One webhook path with its kind, operations and rules."""

    path: str
    name: str
    kind: Kind
    operations: tuple[str, ...]
    mutator: Mutator | None = None
    validators: Mapping[str, Validator] | None = None
    warners: tuple[Warner, ...] = ()  # of objects that are admitted

    @property
    def mutating(self) -> bool:
        return self.mutator is not None


SERVICES: tuple[AdmissionService, ...] = (
    AdmissionService("/jobs/mutate", "mutatejob.volcano.sh", JOB, ("CREATE", "UPDATE"), default_job),
    AdmissionService(
        "/jobs/validate",
        "validatejob.volcano.sh",
        JOB,
        ("CREATE", "UPDATE"),
        validators={"CREATE": check_new_job, "UPDATE": check_job_update},
        warners=(topology_warnings, job_warnings),
    ),
    AdmissionService("/pods/mutate", "mutatepod.volcano.sh", POD, ("CREATE",), default_pod),
    AdmissionService(
        "/pods/validate",
        "validatepod.volcano.sh",
        POD,
        ("CREATE",),
        validators={"CREATE": check_pod},
        warners=(pod_warnings,),
    ),
    AdmissionService(
        "/podgroups/mutate", "mutatepodgroup.volcano.sh", POD_GROUP, ("CREATE",), default_pod_group
    ),
    AdmissionService(
        "/podgroups/validate",
        "validatepodgroup.volcano.sh",
        POD_GROUP,
        ("CREATE",),
        validators={"CREATE": check_pod_group},
        warners=(topology_warnings,),
    ),
    AdmissionService("/queues/mutate", "mutatequeue.volcano.sh", QUEUE, ("CREATE",), default_queue),
    AdmissionService(
        "/queues/validate",
        "validatequeue.volcano.sh",
        QUEUE,
        ("CREATE", "UPDATE", "DELETE"),
        validators={"CREATE": check_queue, "UPDATE": check_queue, "DELETE": check_queue_deletion},
    ),
    AdmissionService(
        "/jobflows/mutate", "mutatejobflow.volcano.sh", JOB_FLOW, ("CREATE", "UPDATE"), set_user
    ),
    AdmissionService(
        "/jobflows/validate",
        "validatejobflow.volcano.sh",
        JOB_FLOW,
        ("CREATE", "UPDATE"),
        validators={"CREATE": check_job_flow, "UPDATE": check_job_flow},
    ),
    AdmissionService(
        "/hypernodes/validate",
        "validatehypernode.volcano.sh",
        HYPER_NODE,
        ("CREATE", "UPDATE"),
        validators={"CREATE": check_hyper_node, "UPDATE": check_hyper_node},
        warners=(warn_hyper_node,),
    ),
    AdmissionService(
        "/nodereservations/validate",
        "validatenodereservation.volcano.sh",
        NODE_RESERVATION,
        ("CREATE", "UPDATE"),
        validators={"CREATE": check_node_reservation, "UPDATE": check_node_reservation},
    ),
    AdmissionService(
        "/cronjobs/mutate", "mutatecronjob.volcano.sh", CRON_JOB, ("CREATE", "UPDATE"), set_user
    ),
    AdmissionService(
        "/cronjobs/validate",
        "validatecronjob.volcano.sh",
        CRON_JOB,
        ("CREATE", "UPDATE"),
        validators={"CREATE": check_cron_job, "UPDATE": check_cron_job},
    ),
)
# Characters of a value, and of a whole message.
LONGEST_VALUE, LONGEST_MESSAGE = 200, 2000
# Errors that a rule raises on a value of the wrong type: rules assume objects that match their schema.
STRUCTURE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
BY_PATH: Mapping[str, AdmissionService] = {service.path: service for service in SERVICES}
_BY_KIND: Mapping[Kind, tuple[AdmissionService, ...]] = {
    kind: tuple(service for service in SERVICES if service.kind == kind)
    for kind in {service.kind for service in SERVICES}
}


def mutate(request: AdmissionRequest) -> Manifest | None:
    """The object with its defaults; unchanged where no defaults apply."""
    manifest = request.new
    for service in _BY_KIND.get(request.kind, ()):
        if service.mutator and request.operation in service.operations:
            manifest = apply_mutator(
                service, request if manifest is request.new else replace(request, new=manifest)
            )
    return manifest


def validate(request: AdmissionRequest) -> list[Violation]:
    """Violations of the write under review."""
    return [
        violation
        for service in _BY_KIND.get(request.kind, ())
        if service.validators and request.operation in service.validators
        for violation in apply_validator(service, request)
    ]


def warnings(request: AdmissionRequest) -> list[str]:
    """Warnings for the client about the write under review."""
    services = _BY_KIND.get(request.kind, ())
    return [text for service in services for text in apply_warners(service, request)]


def apply_warners(service: AdmissionService, request: AdmissionRequest) -> list[str]:
    """Warnings of one service; none about a malformed object, which the schema rejects."""
    if request.operation != "CREATE":
        return []
    try:
        return [text for warner in service.warners for text in warner(request)]
    except STRUCTURE_ERRORS:
        return []


def apply_mutator(service: AdmissionService, request: AdmissionRequest) -> Manifest | None:
    """The object with one service's defaults. A malformed object is left for the schema to reject."""
    assert service.mutator is not None
    try:
        return service.mutator(request)
    except STRUCTURE_ERRORS:
        return request.new


def apply_validator(service: AdmissionService, request: AdmissionRequest) -> list[Violation]:
    """Violations of one service's rules. A malformed object is a violation itself."""
    assert service.validators is not None
    try:
        violations = list(service.validators[request.operation](request))
    except STRUCTURE_ERRORS as error:
        text = f"{request.kind.kind} {request.key} is malformed and cannot be validated: {error}"
        violations = [Violation("", text)]
    if all(len(str(violation)) <= LONGEST_VALUE for violation in violations):
        return violations
    values = list(_long_texts(request.new))
    return [Violation(_cut(v.field, values), _cut(v.message, values)) for v in violations]


def _long_texts(value: Any) -> Iterator[str]:
    """The texts in an object that are too long for a message."""
    if isinstance(value, str):
        if len(value) > LONGEST_VALUE:
            yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _long_texts(key)
            yield from _long_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _long_texts(part)


def _cut(message: str, values: Iterable[str]) -> str:
    """A message with at most the beginning of long values."""
    for value in values:
        for text in (value, repr(value)[1:-1]):
            message = message.replace(text, f"{text[:LONGEST_VALUE]}...")
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."


def applies_to(kind: Kind) -> bool:
    """Whether there are rules for this kind."""
    return kind in _BY_KIND

"""Our admission rules, in process: the embedded API server asks them directly, without a webhook."""

from volcano.admission.review import Complaint, Request, Settings
from volcano.admission.rules import complaints, complete, governed
from volcano.apiserver.interfaces import Admit, Attributes, Lookup
from volcano.kube.errors import Cause, Invalid
from volcano.kube.manifest import Manifest
from volcano.local.logs import component
from volcano.log import Log

log = Log("admission")

ADMISSION = "volcano-admission"  # the component whose log this is


def completing(settings: Settings) -> Admit:
    """Our defaults, as an admission step before webhooks and validation."""

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.subresource or new is None or not governed(request.kind):
            return new
        return complete(Request(request.operation, request.kind, request.key, new, old, lookup, settings))

    return admit


def judging(settings: Settings) -> Admit:
    """Our rules, as an admission step after the schema has been checked: what they look at has the right shape."""

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.subresource or not governed(request.kind):
            return new
        found = complaints(Request(request.operation, request.kind, request.key, new, old, lookup, settings))
        if found:
            with component(ADMISSION):
                log.info(
                    "refused", kind=request.kind.kind, object=request.key, reason="; ".join(map(str, found))
                )
            raise _refusal(request, found)
        return new

    return admit


def _refusal(request: Attributes, found: list[Complaint]) -> Invalid:
    kind = request.kind
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = "; ".join(map(str, found))
    return Invalid(
        f'{title} "{request.key.name}" is invalid: {text}',
        causes=[Cause("FieldValueInvalid", complaint.message, complaint.field) for complaint in found],
        name=request.key.name,
        group=kind.group,
        kind=kind.kind,
    )

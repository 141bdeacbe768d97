"""Our admission rules, in process: the embedded API server asks them directly, without a webhook."""

from volcano.admission.review import Complaint, Request, Settings
from volcano.admission.rules import complaints, complete, governed
from volcano.apiserver.seams import Admit, Attributes, Lookup
from volcano.kube.errors import Cause, Invalid
from volcano.kube.manifest import Manifest


def in_process(settings: Settings) -> Admit:
    """The rules as an admission step of the API server."""

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.subresource or not governed(request.kind):
            return new
        review = Request(request.operation, request.kind, request.key, new, old, lookup, settings)
        completed = complete(review)
        review = Request(request.operation, request.kind, request.key, completed, old, lookup, settings)
        found = complaints(review)
        if found:
            raise _refusal(request, found)
        return completed

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

"""Custom resources of the wrong shape are refused before anybody's admission has to read them."""

from volcano.apiserver.kindtable import KindTable
from volcano.apiserver.refusals import invalid
from volcano.apiserver.seams import Attributes, Lookup
from volcano.kube.manifest import Manifest

WRONG_TYPE = "FieldValueTypeInvalid"


class TypesFirst:
    """Admission that refuses custom resources whose values have the wrong types.

    The rest of validation comes after admission, because admission may fill in what is missing; but no defaults and
    no webhook can make sense of a number where the schema wants a list. Built-in kinds are checked when decoded.
    """

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or request.subresource not in ("", "status"):
            return new
        served = self._kinds.served(request.kind)
        if served.crd:
            causes = served.strategy.validate(new, old, request.subresource)
            if any(cause.reason == WRONG_TYPE for cause in causes):
                raise invalid(request.kind, request.key.name, causes)
        return new

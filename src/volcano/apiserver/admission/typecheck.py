"""Custom resources are checked twice on their way through admission, so that nobody has to read nonsense."""

from volcano.apiserver.errors import invalid
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.registry.kind_table import KindTable
from volcano.kube import type_info
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest

WRONG_TYPE = "FieldValueTypeInvalid"


class SoundCustomResources:
    """Admission that refuses custom resources their schema refuses. Built-in kinds are checked when decoded.

    `types_only` is for the beginning, where admission may yet fill in what is missing: but no defaults and no webhook
    can make sense of a number where the schema wants a list. Later, before anybody judges an object, it has to be
    whole. The registry validates once more what is stored, whoever has changed it last.
    """

    def __init__(self, kinds: KindTable, *, types_only: bool) -> None:
        self._kinds = kinds
        self._types_only = types_only

    def concerns(self, kind: Kind) -> bool:
        return type_info.type_of(kind) is None

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or request.subresource:
            return new
        served = self._kinds.served(request.kind)
        if served.crd:
            if not self._types_only:
                served.strategy.default(new)
            causes = served.strategy.validate(new, old, request.subresource)
            if causes and (not self._types_only or any(cause.reason == WRONG_TYPE for cause in causes)):
                raise invalid(request.kind, request.key.name, causes)
        return new

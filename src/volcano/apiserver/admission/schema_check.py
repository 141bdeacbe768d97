"""Checks custom resources against their schema during admission. Built-in kinds are checked when decoded.

The registry validates the final object once more before it is stored.
"""

from volcano.apiserver.errors import invalid
from volcano.apiserver.interfaces import Attributes, Lookup, Served
from volcano.apiserver.registry.kind_table import KindTable
from volcano.kube.api import type_info
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

WRONG_TYPE = "FieldValueTypeInvalid"


class CustomResourceSchema:
    """Admission plugin that defaults a custom resource and rejects it unless it is valid."""

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds

    def handles(self, kind: Kind) -> bool:
        return type_info.type_of(kind) is None

    async def __call__(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or attributes.subresource:
            return new
        served = self._kinds.served(attributes.kind)
        if served.crd and (causes := self._causes(served, new, old)):
            raise invalid(attributes.kind, attributes.key.name, causes)
        return new

    def _causes(self, served: Served, new: Manifest, old: Manifest | None) -> list[Cause]:
        served.strategy.default(new)
        return served.strategy.validate(new, old, "")


class CustomResourceTypes(CustomResourceSchema):
    """Admission plugin that rejects a custom resource with a value of the wrong type: no default and no webhook can
    correct it. Missing fields may still be filled in by later plugins."""

    def _causes(self, served: Served, new: Manifest, old: Manifest | None) -> list[Cause]:
        causes = served.strategy.validate(new, old, "")
        return causes if any(cause.reason == WRONG_TYPE for cause in causes) else []

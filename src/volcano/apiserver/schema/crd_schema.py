"""Schema of one CRD version: structural validation, CEL validation rules, pruning and defaulting."""

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from volcano.apiserver.schema import structural
from volcano.apiserver.schema.structural import IMPLICIT
from volcano.apiserver.schema.validation_rules import ValidationRules, compile_rules
from volcano.kube.api.errors import Cause
from volcano.kube.api.manifest import Manifest

Mutator = Callable[[Any], None]
# Errors that prevent the evaluation of CEL rules.
_BLOCKING = frozenset(
    f"FieldValue{name}" for name in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_RULES_NOT_CHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


class CompiledSchema:
    """Schema of one version; each of its parts is compiled at first use."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source

    @cached_property
    def _validate(self) -> structural.Validate:
        return structural.compile_schema(self.source, root=True).validate

    @cached_property
    def _prune(self) -> Mutator:
        return _pruner(self.source, keep=IMPLICIT)

    @cached_property
    def _default(self) -> Mutator | None:
        return _defaulter(self.source)

    @cached_property
    def _rules(self) -> ValidationRules | None:
        return compile_rules(self.source, root=True)

    def causes(self, manifest: Manifest, old: Manifest | None = None) -> list[Cause]:
        """Validates an object. Errors of values that an update leaves unchanged are ignored (ratcheting)."""
        causes = structural.causes_of(self._validate(manifest))
        if old is not None and causes:
            causes = [cause for cause in causes if not _unchanged(cause, manifest, old)]
        if self._rules is None:
            return causes
        if any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, _RULES_NOT_CHECKED]
        return causes + self._rules.causes(manifest, old)

    def prune(self, manifest: Manifest) -> None:
        """Prunes unknown fields."""
        self._prune(manifest)

    def default(self, manifest: Manifest) -> None:
        """Applies the defaults of the schema."""
        if self._default is not None:
            self._default(manifest)

    def unknown_fields(self, manifest: Manifest) -> list[str]:
        """Paths of the fields that `prune` drops."""
        return [path.removeprefix(".") for path in _unknown(manifest, self.source, "", IMPLICIT)]


def _allows_unknown(schema: Mapping[str, Any]) -> bool:
    extra = schema.get("additionalProperties")
    return (
        bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        or isinstance(extra, Mapping)
        or extra is True
    )


def _known(schema: Mapping[str, Any], keep: tuple[str, ...]) -> frozenset[str]:
    implicit = IMPLICIT if schema.get("x-kubernetes-embedded-resource") else ()
    return frozenset((*(schema.get("properties") or {}), *keep, *implicit))


def _pruner(schema: Mapping[str, Any], keep: tuple[str, ...] = ()) -> Mutator:
    """Compiles the pruning of unknown fields, and of nulls where the schema is not nullable. As in kube-apiserver,
    an object where the schema specifies another type has no known fields."""
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    known, open_ended = _known(schema, keep), _allows_unknown(schema)
    if not known and not schema.get("items") and (preserves or not open_ended):
        return _keep if preserves else _prune_all
    below = {name: _keep if name in keep else _pruner(sub) for name, sub in properties.items()}
    below |= dict.fromkeys((*keep, *(known - below.keys())), _keep)
    others = _pruner(extra) if isinstance(extra, Mapping) else _keep
    items = _pruner(schema["items"]) if schema.get("items") else _keep if preserves else _prune_all
    nullable = {name for name, sub in properties.items() if sub.get("nullable")} | set(keep)
    lenient = preserves or extra is True or (isinstance(extra, Mapping) and bool(extra.get("nullable")))

    def prune(value: Any) -> None:
        if value.__class__ is list:
            for item in value:
                items(item)
        if value.__class__ is not dict:
            return
        if not open_ended and not known.issuperset(value):
            for name in [name for name in value if name not in known]:
                del value[name]
        nulls = []
        for name, item in value.items():
            if item.__class__ is dict or item.__class__ is list:
                below.get(name, others)(item)
            elif item is None and name not in nullable and (name in known or not lenient):
                nulls.append(name)
        for name in nulls:
            del value[name]

    return prune


def _keep(value: Any) -> None:
    """Prunes nothing."""


def _prune_all(value: Any) -> None:
    """Prunes all fields of objects."""
    if value.__class__ is dict:
        value.clear()
    elif value.__class__ is list:
        for item in value:
            _prune_all(item)


def _unknown(value: Any, schema: Any, path: str, keep: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths of the unknown fields that `_pruner` drops."""
    schema = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, list):
        if schema.get("items") or not schema.get("x-kubernetes-preserve-unknown-fields"):
            for index, item in enumerate(value):
                yield from _unknown(item, schema.get("items"), f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    known, open_ended = _known(schema, keep), _allows_unknown(schema)
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name not in known and not open_ended:
            yield f"{path}.{name}"
        elif name in properties and name not in keep:
            yield from _unknown(item, properties[name], f"{path}.{name}")
        elif name not in known and isinstance(extra, Mapping):
            yield from _unknown(item, extra, f"{path}.{name}")


def _each_item(value: Any, mutate: Mutator) -> None:
    if isinstance(value, list):
        for item in value:
            mutate(item)


def _defaulter(schema: Any) -> Mutator | None:
    if not isinstance(schema, Mapping):
        return None
    if schema.get("type") == "array":
        item = _defaulter(schema.get("items"))
        return None if item is None else lambda value: _each_item(value, item)
    properties = schema.get("properties") or {}
    own = [
        (name, sub["default"], bool(sub.get("nullable")))
        for name, sub in properties.items()
        if "default" in sub
    ]
    below = [(name, mutate) for name, sub in properties.items() if (mutate := _defaulter(sub)) is not None]
    others = _defaulter(schema.get("additionalProperties"))
    if not own and not below and others is None:
        return None

    def default(value: Any) -> None:
        if not isinstance(value, dict):
            return
        for name, given, nullable in own:
            if name not in value or (value[name] is None and not nullable):
                value[name] = copy.deepcopy(given) if isinstance(given, dict | list) else given
        for name, mutate in below:
            if name in value:
                mutate(value[name])
        if others is not None:
            for name, item in value.items():
                if name not in properties:
                    others(item)

    return default


def _unchanged(cause: Cause, new: Manifest, old: Manifest) -> bool:
    """Whether the value of an error is the same as before the update."""
    after: Any = new
    before: Any = old
    for step in cause.field.replace("[", ".[").split("."):
        if after == before:
            return True
        if step.startswith("["):
            return False  # items of a changed list are not correlatable
        if not isinstance(after, dict) or not isinstance(before, dict) or step not in after:
            return False
        if step not in before:
            return False
        after, before = after[step], before[step]
    return bool(after == before)

"""A CRD's schema as a whole: what it refuses, what it drops and what it fills in."""

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from volcano.apiserver import structural
from volcano.apiserver.cel import Rules, compile_rules
from volcano.apiserver.structural import IMPLICIT
from volcano.kube.errors import Cause
from volcano.kube.manifest import Manifest

Change = Callable[[Any], None]


class CompiledSchema:
    """One version's schema, compiled when first asked, and asked often."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source

    @cached_property
    def _check(self) -> structural.Check:
        return structural.compile_schema(self.source, root=True).check

    @cached_property
    def _prune(self) -> Change | None:
        return _pruner(self.source, keep=IMPLICIT)

    @cached_property
    def _default(self) -> Change | None:
        return _defaulter(self.source)

    @cached_property
    def _rules(self) -> Rules | None:
        return compile_rules(self.source)

    def causes(self, manifest: Manifest, old: Manifest | None = None) -> list[Cause]:
        """Everything wrong with an object. What an update leaves as it was is not complained about again."""
        problems = self._check(manifest)
        if problems:
            causes = structural.causes_of(problems)
            return (
                causes if old is None else [cause for cause in causes if not _untouched(cause, manifest, old)]
            )
        return self._rules.causes(manifest, old) if self._rules is not None else []

    def prune(self, manifest: Manifest) -> None:
        """Drops the fields the schema does not know."""
        if self._prune is not None:
            self._prune(manifest)

    def default(self, manifest: Manifest) -> None:
        """Fills in the schema's defaults."""
        if self._default is not None:
            self._default(manifest)

    def unknown_fields(self, manifest: Manifest) -> list[str]:
        """The paths of the fields that `prune` would drop."""
        return [path.removeprefix(".") for path in _unknown(manifest, self.source, "", IMPLICIT)]


def _descends(schema: Mapping[str, Any] | None) -> bool:
    """Whether there is anything to prune below a schema."""
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    return kind == "object" or (kind == "array" and _descends(schema.get("items"))) or "properties" in schema


def _keeps_others(schema: Mapping[str, Any]) -> bool:
    extra = schema.get("additionalProperties")
    return (
        bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        or isinstance(extra, Mapping)
        or extra is True
    )


def _known(schema: Mapping[str, Any], keep: tuple[str, ...]) -> frozenset[str]:
    implicit = IMPLICIT if schema.get("x-kubernetes-embedded-resource") else ()
    return frozenset((*(schema.get("properties") or {}), *keep, *implicit))


def _pruner(schema: Mapping[str, Any], keep: tuple[str, ...] = ()) -> Change | None:
    if not _descends(schema):
        return None
    if schema.get("type") == "array":
        item = _pruner(schema["items"])
        return None if item is None else lambda value: _each_item(value, item)
    known = _known(schema, keep)
    open_ended = _keeps_others(schema)
    below = {
        name: change
        for name, sub in (schema.get("properties") or {}).items()
        if name not in keep and (change := _pruner(sub)) is not None
    }
    extra = schema.get("additionalProperties")
    others = _pruner(extra) if isinstance(extra, Mapping) else None

    def prune(value: Any) -> None:
        if not isinstance(value, dict):
            return
        if not open_ended and not known.issuperset(value):
            for name in [name for name in value if name not in known]:
                del value[name]
        for name, item in value.items():
            change = below.get(name)
            if change is not None:
                change(item)
            elif others is not None and name not in known:
                others(item)

    return prune


def _each_item(value: Any, change: Change) -> None:
    if isinstance(value, list):
        for item in value:
            change(item)


def _unknown(value: Any, schema: Any, path: str, keep: tuple[str, ...] = ()) -> Iterator[str]:
    if not _descends(schema):
        return
    if schema.get("type") == "array":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _unknown(item, schema["items"], f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    known, open_ended = _known(schema, keep), _keeps_others(schema)
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name not in known and not open_ended:
            yield f"{path}.{name}"
        elif name in properties and name not in keep:
            yield from _unknown(item, properties[name], f"{path}.{name}")
        elif name not in known and isinstance(extra, Mapping):
            yield from _unknown(item, extra, f"{path}.{name}")


def _defaulter(schema: Any) -> Change | None:
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
    below = [(name, change) for name, sub in properties.items() if (change := _defaulter(sub)) is not None]
    others = _defaulter(schema.get("additionalProperties"))
    if not own and not below and others is None:
        return None

    def default(value: Any) -> None:
        if not isinstance(value, dict):
            return
        for name, given, nullable in own:
            if name not in value or (value[name] is None and not nullable):
                value[name] = copy.deepcopy(given) if isinstance(given, dict | list) else given
        for name, change in below:
            if name in value:
                change(value[name])
        if others is not None:
            for name, item in value.items():
                if name not in properties:
                    others(item)

    return default


def _untouched(cause: Cause, new: Manifest, old: Manifest) -> bool:
    """Whether the value a complaint is about is the same as before the update."""
    after: Any = new
    before: Any = old
    for step in cause.field.replace("[", ".[").split("."):
        if after == before:
            return True
        if step.startswith("["):
            return False  # items of a changed list cannot be told apart
        if not isinstance(after, dict) or not isinstance(before, dict) or step not in after:
            return False
        if step not in before:
            return False
        after, before = after[step], before[step]
    return bool(after == before)

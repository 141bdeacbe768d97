"""Selection of objects for lists and watches: namespace, labels and fields, compiled once and matched many
times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.selectable_fields import ALIASES, NAME, NAMESPACE, as_text, selectable
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key
from volcano.kube.api.selectors import (
    FieldRequirement,
    LabelSelector,
    Operator,
    Requirement,
    parse_fields,
    parse_labels,
)

Test = Callable[[StoredObject], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled selection. `exact` holds the required field values, for finding objects by an index."""

    namespace: str
    tests: tuple[Test, ...]
    exact: tuple[tuple[str, str], ...] = ()

    @property
    def everything(self) -> bool:
        """Whether every object of the namespace (or of all) is selected."""
        return not self.tests

    def matches(self, record: StoredObject) -> bool:
        """Whether the object is selected, its namespace included."""
        if self.namespace and record.key.namespace != self.namespace:
            return False
        for test in self.tests:  # noqa: SIM110 - the hottest loop of a selective list or watch
            if not test(record):
                return False
        return True

    def only_key(self) -> Key | None:
        """The single key that can be selected, if the selection names it."""
        exact = dict(self.exact)
        namespace = self.namespace or exact.get(NAMESPACE)
        if NAME in exact and namespace is not None:
            return Key(namespace, exact[NAME])
        return None


def select(
    kind: Kind, storage: Kind, namespace: str, labels: str, fields: str, extra_fields: Sequence[str] = ()
) -> Selection:
    """Compiles selectors. `extra_fields` are the JSON paths that a CRD makes selectable. Raises BadRequest."""
    if not labels and not fields:
        return Selection(namespace, ())
    try:
        wanted_labels, wanted_fields = parse_labels(labels), parse_fields(fields)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    tests = _label_tests(wanted_labels)
    exact = []
    for requirement in wanted_fields.requirements:
        path = ALIASES.get(kind.resource, {}).get(requirement.path, requirement.path)
        tests.append(_field_test(kind, storage, requirement._replace(path=path), extra_fields))
        if requirement.operator == "=":
            exact.append((path, requirement.value))
    if not kind.namespaced:
        exact.append((NAMESPACE, ""))
    return Selection(namespace, tuple(tests), tuple(exact))


def _label_tests(selector: LabelSelector) -> list[Test]:
    """One test per requirement; the common ones are direct comparisons."""
    return [_label_test(requirement) for requirement in selector.requirements]


def _label_test(wanted: Requirement) -> Test:
    key, values = wanted.key, wanted.values
    match wanted.operator:
        case Operator.IN:
            return lambda record: record.labels.get(key) in values
        case Operator.NOT_IN:
            return lambda record: record.labels.get(key) not in values
        case Operator.EXISTS:
            return lambda record: key in record.labels
        case Operator.DOES_NOT_EXIST:
            return lambda record: key not in record.labels
    return lambda record: wanted.matches(record.labels)


def _field_test(kind: Kind, storage: Kind, wanted: FieldRequirement, extra_fields: Sequence[str]) -> Test:
    path, equal, value = wanted.path, wanted.operator == "=", wanted.value
    if path == NAME:
        return lambda record: (record.key.name == value) is equal
    if path == NAMESPACE and (kind.namespaced or kind.resource not in _WITHOUT_NAMESPACE):
        return lambda record: (record.key.namespace == value) is equal
    known = selectable(storage.resource)
    if path in known:
        position = known.index(path)
        return lambda record: (record.fields[position] == value) is equal
    if path in {extra.removeprefix(".") for extra in extra_fields}:
        steps = path.split(".")
        return lambda record: (as_text(_follow(record.data, steps)) == value) is equal
    if known or extra_fields:
        raise BadRequest(f"field label not supported: {path}")
    raise BadRequest(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


# As in kube-apiserver, these kinds have no field metadata.namespace.
_WITHOUT_NAMESPACE = frozenset(("nodes", "namespaces"))


def _follow(data: bytes, steps: list[str]) -> Any:
    found: Any = orjson.loads(data)
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    return found

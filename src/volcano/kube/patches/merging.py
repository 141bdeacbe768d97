"""Comparing, merging and pruning of typed values, as in structured-merge-diff."""

from dataclasses import dataclass
from typing import Any

from volcano.kube.patches.fieldset import ITSELF, FieldSet, format_path_element, is_member, union
from volcano.kube.patches.merge_types import ATOMIC, DEDUCED, MergeKind, MergeType, StructField
from volcano.kube.patches.patch import same


@dataclass(frozen=True, slots=True)
class Comparison:
    """Fields that a change removed, modified and added."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def written(self) -> FieldSet:
        """Added and modified fields."""
        return union(self.modified, self.added)


def resolve(type_: MergeType, value: Any) -> MergeType:
    """Returns the merge type for a value: the actual one for a deduced type, atomic for a value that does not
    fit."""
    if type_.kind is MergeKind.DEDUCED:
        return _DEDUCED_MAP if isinstance(value, dict) else ATOMIC
    if type_.kind is MergeKind.MAP:
        return type_ if isinstance(value, dict) else ATOMIC
    if type_.kind is not MergeKind.ATOMIC and not isinstance(value, list):
        return ATOMIC
    return type_


_DEDUCED_MAP = MergeType(MergeKind.MAP, element=DEDUCED)


def to_field_set(type_: MergeType, value: Any) -> FieldSet:
    """Returns the fields that an applier of this value owns: its leaves, list elements and map entries."""
    type_ = resolve(type_, value)
    result: FieldSet = {}
    if type_.kind is MergeKind.MAP:
        for key, child in value.items():
            inner_type = type_.child(key)
            if inner_type is None:
                continue
            inner = resolve(inner_type, child)
            below = to_field_set(inner, child)
            owned = inner.kind is MergeKind.ATOMIC or child == {} or key not in type_.fields
            _put(result, f"f:{key}", below, owned=owned)
    elif type_.kind is not MergeKind.ATOMIC:
        assert type_.element is not None
        for child in value:
            _put(result, type_.path_element(child), to_field_set(type_.element, child), owned=True)
    return result


def all_fields(type_: MergeType, value: Any) -> FieldSet:
    """Returns the node of an added value: all of its fields are new, itself included."""
    if type_.atomic or not value:
        return {}
    type_ = resolve(type_, value)
    if type_.kind is MergeKind.MAP:
        return _all_members(type_, value)
    element = type_.element
    if element is None:
        return {}
    node: FieldSet = {ITSELF: {}}
    for child in value:
        node[type_.path_element(child)] = _all_members(element, child) if child.__class__ is dict else {}
    return node


def _all_members(type_: MergeType, value: dict[str, Any]) -> FieldSet:
    if type_.kind is not MergeKind.MAP:
        return all_fields(type_, value)
    node: FieldSet = {ITSELF: {}}
    fields, element = type_.fields, type_.element
    for key, child in value.items():
        if child is None:
            continue
        member = fields.get(key)
        if member is not None:
            inner = member.type
            node[member.path_element] = {} if inner.atomic or not child else all_fields(inner, child)
        elif element is not None:
            node["f:" + key] = {} if element.atomic else all_fields(element, child)
    return node if len(node) > 1 else {}


def fields_of_new_object(type_: MergeType, value: dict[str, Any]) -> FieldSet:
    """Returns what `compare` finds added or modified against an empty object, but faster."""
    result: FieldSet = {}
    fields, element = type_.fields, type_.element
    for key, child in value.items():
        if child is None:
            continue
        member = fields.get(key)
        if member is None:
            if element is not None:
                result["f:" + key] = all_fields(element, child)
        elif not member.always_present:
            inner = member.type
            result[member.path_element] = {} if inner.atomic or not child else all_fields(inner, child)
        elif child:
            node = _fields_of_filled_value(member.type, child)
            if node is not None:
                result[member.path_element] = node
    return result


def _fields_of_filled_value(type_: MergeType, value: Any) -> FieldSet | None:
    """Returns the node of a value that was empty before; None when no field in it is owned."""
    type_ = resolve(type_, value)
    if type_.kind is MergeKind.ATOMIC:
        return {}
    if type_.kind is MergeKind.MAP:
        return fields_of_new_object(type_, value) or None
    return {
        path_element: node
        for path_element, node in all_fields(type_, value).items()
        if path_element != ITSELF
    } or None


def compare(type_: MergeType, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compares two objects; an atomic value counts as one field."""
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    _compare_maps(type_, old, new, removed, modified, added)
    return Comparison(removed, modified, added)


def _compare_maps(
    type_: MergeType,
    old: dict[str, Any],
    new: dict[str, Any],
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
) -> None:
    fields, element = type_.fields, type_.element
    for key, after in new.items():
        before = old.get(key)
        if before is after or before == after:
            continue
        member = fields.get(key) or (StructField(element, f"f:{key}") if element else None)
        if member is not None:
            _compare_values(member, before, after, removed, modified, added)
    for key, before in old.items():
        if before is None or key in new:
            continue
        member = fields.get(key) or (StructField(element, f"f:{key}") if element else None)
        if member is not None:
            _compare_values(member, before, None, removed, modified, added)


def _compare_values(
    member: StructField, old: Any, new: Any, removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    """Records the change of one field under its path element; a value that is None is absent."""
    path_element, type_ = member.path_element, member.type
    if member.always_present:  # a typed server has an empty value instead of none
        empty: Any = [] if type_.kind in (MergeKind.ASSOCIATIVE, MergeKind.SET) else {}
        old = empty if old is None else old
        new = empty if new is None else new
    if old is None or new is None:
        if new is not None:
            added[path_element] = all_fields(type_, new)
        elif old is not None:
            removed[path_element] = all_fields(type_, old)
        return
    old_type, new_type = resolve(type_, old), resolve(type_, new)
    if not old and not new:
        if old.__class__ is not new.__class__:
            modified[path_element] = {}
    elif old_type is not new_type or new_type.kind is MergeKind.ATOMIC:
        if not same(old, new):
            modified[path_element] = {}
    else:
        below: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        if new_type.kind is MergeKind.MAP:
            _compare_maps(new_type, old, new, *below)
        else:
            _compare_lists(new_type, old, new, *below)
        for inner, outer in zip(below, (removed, modified, added), strict=True):
            if inner:
                outer[path_element] = inner


def _compare_lists(
    type_: MergeType, old: list[Any], new: list[Any], removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    assert type_.element is not None
    before, after = _by_path_element(type_, old), _by_path_element(type_, new)
    for path_element in {**before, **after}:
        old_items, new_items = before.get(path_element, []), after.get(path_element, [])
        if len(old_items) < 2 and len(new_items) < 2:
            member = StructField(type_.element, path_element)
            _compare_values(
                member,
                old_items[0] if old_items else None,
                new_items[0] if new_items else None,
                removed,
                modified,
                added,
            )
        elif not same(old_items, new_items):  # duplicates are compared as one
            target = modified if old_items and new_items else added if new_items else removed
            target[path_element] = {}


def _by_path_element(type_: MergeType, elements: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for element in elements:
        result.setdefault(type_.path_element(element), []).append(element)
    return result


def merge(type_: MergeType, live: Any, applied: Any) -> Any:
    """Merges `applied` into `live`: objects and associative lists are merged, other values replaced."""
    if live is None or applied is None:
        return live if applied is None else applied
    live_type, type_ = resolve(type_, live), resolve(type_, applied)
    if type_.kind is MergeKind.ATOMIC or live_type is not type_:
        return applied
    if type_.kind is not MergeKind.MAP:
        return _merge_lists(type_, live, applied)
    result = dict(live)
    for key, value in applied.items():
        inner = type_.child(key)
        result[key] = value if inner is None else merge(inner, live.get(key), value)
    return result


def _merge_lists(type_: MergeType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Applied elements keep their order; elements of the live list only stay at their position between them."""
    assert type_.element is not None
    present = {
        path_element: items[0] if len(items) == 1 else None
        for path_element, items in _by_path_element(type_, live).items()
    }
    wanted = {type_.path_element(each): each for each in applied}
    waiting = [(type_.path_element(each), each) for each in live]
    shared = [path_element for path_element in wanted if path_element in present]
    done: set[str] = set()
    result = []
    for path_element, value in wanted.items():
        # Live-only elements before the next shared one come first; shared ones that come too early are held
        # back.
        while waiting and waiting[0][0] != path_element:
            ahead, element = waiting[0]
            if ahead not in wanted:
                result.append(element)
            elif ahead not in done and not (shared and shared[0] != ahead):
                break
            waiting.pop(0)
        if waiting and waiting[0][0] == path_element:
            waiting.pop(0)
        if shared and shared[0] == path_element:
            shared.pop(0)
        done.add(path_element)
        result.append(merge(type_.element, present.get(path_element), value))
    return result + [element for path_element, element in waiting if path_element not in wanted]


def remove(type_: MergeType, value: Any, fields: FieldSet) -> Any:
    """Returns `value` without those fields; objects and lists that become empty are kept."""
    type_ = resolve(type_, value)
    if type_.kind is MergeKind.ATOMIC or not fields or not value:
        return value
    if type_.kind is MergeKind.MAP:
        return _remove_members(type_, value, fields)
    assert type_.element is not None
    result = []
    for element in value:
        node = fields.get(type_.path_element(element))
        if node is None:
            result.append(element)
        elif not is_member(node):
            result.append(remove(type_.element, element, node))
    return result


def _remove_members(type_: MergeType, value: dict[str, Any], fields: FieldSet) -> dict[str, Any]:
    result = {}
    for key, child in value.items():
        node = fields.get(f"f:{key}")
        inner = type_.child(key)
        if node is None or inner is None:
            result[key] = child
        elif not is_member(node):
            result[key] = remove(inner, child, node)
    return result


def without_empty_fields(type_: MergeType, value: Any) -> Any:
    """Returns `value` without the empty lists and maps that a typed server omits."""
    type_ = resolve(type_, value)
    if type_.kind is MergeKind.MAP:
        result = {}
        for key, child in value.items():
            member = type_.fields.get(key)
            if not (member and member.omit_empty and not child and isinstance(child, (dict, list))):
                result[key] = without_empty_fields(type_.child(key) or ATOMIC, child)
        return result
    if type_.kind is MergeKind.ASSOCIATIVE:
        return [without_empty_fields(type_.element or ATOMIC, child) for child in value]
    return value


def ensure_named_fields_are_members(type_: MergeType, fields: FieldSet) -> FieldSet:
    """Adds every named field that has members below it to the set."""
    result: FieldSet = {}
    for path_element, node in fields.items():
        if path_element == ITSELF:
            result[path_element] = node
            continue
        named, inner = False, type_.element or ATOMIC
        if path_element.startswith("f:"):
            named = path_element[2:] in type_.fields
            inner = type_.child(path_element[2:]) or ATOMIC
        if inner is DEDUCED:
            inner = _DEDUCED_MAP
        below = ensure_named_fields_are_members(inner, node)
        result[path_element] = {ITSELF: {}, **below} if named and below and ITSELF not in below else below
    return result


def unknown_fields(type_: MergeType, value: Any, path: str = "") -> list[str]:
    """Returns an error for each field that the type does not have. Raises ValueError when a list element
    lacks a key."""
    type_ = resolve(type_, value)
    if type_.kind is MergeKind.MAP:
        found = []
        for key, child in value.items():
            inner = type_.child(key)
            if inner is None:
                found.append(f"{path}.{key}: field not declared in schema")
            else:
                found += unknown_fields(inner, child, f"{path}.{key}")
        return found
    if type_.kind is not MergeKind.ASSOCIATIVE:
        return []
    assert type_.element is not None
    return [
        text
        for child in value
        for text in unknown_fields(
            type_.element, child, path + format_path_element(type_.path_element(child))
        )
    ]


def duplicate_elements(type_: MergeType, value: Any, path: str = "") -> list[str]:
    """Returns the elements of associative lists and sets that occur twice. Raises ValueError when one lacks a
    key."""
    type_ = resolve(type_, value)
    found: list[str] = []
    if type_.kind is MergeKind.MAP:
        for key, child in value.items():
            found += duplicate_elements(type_.child(key) or ATOMIC, child, f"{path}.{key}")
    elif type_.kind is not MergeKind.ATOMIC:
        assert type_.element is not None
        for path_element, elements in _by_path_element(type_, value).items():
            element = format_path_element(path_element)
            if len(elements) > 1:
                found.append(f"{path}: duplicate entries for key {element}")
            found += duplicate_elements(type_.element, elements[0], path + element)
    return found


def _put(result: FieldSet, path_element: str, below: FieldSet, *, owned: bool) -> None:
    if owned:
        result[path_element] = {ITSELF: {}, **below} if below else {}
    elif below:
        result[path_element] = below

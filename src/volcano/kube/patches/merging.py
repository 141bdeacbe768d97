"""What two values of a shape differ in, what merging them gives, and what is left when fields are taken away."""

from dataclasses import dataclass
from typing import Any

from volcano.kube.patches.fieldset import ITSELF, FieldSet, is_member, path_element, union
from volcano.kube.patches.merge_types import DEDUCED, WHOLE, Form, Member, Shape
from volcano.kube.patches.patch import same


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change did to an object's fields."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def written(self) -> FieldSet:
        """The fields that were added or changed."""
        return union(self.modified, self.added)


def effective(shape: Shape, value: Any) -> Shape:
    """The shape to use for a value: what a deduced one turns out to be, and whole for what does not fit its form."""
    if shape.form is Form.DEDUCED:
        return _DEDUCED_MAP if isinstance(value, dict) else WHOLE
    if shape.form is Form.MAP:
        return shape if isinstance(value, dict) else WHOLE
    if shape.form is not Form.WHOLE and not isinstance(value, list):
        return WHOLE
    return shape


_DEDUCED_MAP = Shape(Form.MAP, element=DEDUCED)


def field_set(shape: Shape, value: Any) -> FieldSet:
    """The fields somebody who applies this value owns: its leaves, list elements and map entries."""
    shape = effective(shape, value)
    result: FieldSet = {}
    if shape.form is Form.MAP:
        for key, child in value.items():
            inner_shape = shape.child(key)
            if inner_shape is None:
                continue
            inner = effective(inner_shape, child)
            below = field_set(inner, child)
            owned = inner.form is Form.WHOLE or child == {} or key not in shape.fields
            _put(result, f"f:{key}", below, owned=owned)
    elif shape.form is not Form.WHOLE:
        assert shape.element is not None
        for child in value:
            _put(result, shape.label(child), field_set(shape.element, child), owned=True)
    return result


def everything(shape: Shape, value: Any) -> FieldSet:
    """The node of a value that was not there before: every field of it is new, itself included."""
    if shape.whole or not value:
        return {}
    shape = effective(shape, value)
    if shape.form is Form.MAP:
        return _every_member(shape, value)
    element = shape.element
    if element is None:
        return {}
    node: FieldSet = {ITSELF: {}}
    for child in value:
        node[shape.label(child)] = _every_member(element, child) if child.__class__ is dict else {}
    return node


def _every_member(shape: Shape, value: dict[str, Any]) -> FieldSet:
    if shape.form is not Form.MAP:
        return everything(shape, value)
    node: FieldSet = {ITSELF: {}}
    fields, element = shape.fields, shape.element
    for key, child in value.items():
        if child is None:
            continue
        member = fields.get(key)
        if member is not None:
            inner = member.shape
            node[member.label] = {} if inner.whole or not child else everything(inner, child)
        elif element is not None:
            node["f:" + key] = {} if element.whole else everything(element, child)
    return node if len(node) > 1 else {}


def newly_written(shape: Shape, value: dict[str, Any]) -> FieldSet:
    """What `compare` finds added or changed against an object nobody has written anything into; but quicker."""
    result: FieldSet = {}
    fields, element = shape.fields, shape.element
    for key, child in value.items():
        if child is None:
            continue
        member = fields.get(key)
        if member is None:
            if element is not None:
                result["f:" + key] = everything(element, child)
        elif not member.always:
            inner = member.shape
            result[member.label] = {} if inner.whole or not child else everything(inner, child)
        elif child:
            node = _newly_filled(member.shape, child)
            if node is not None:
                result[member.label] = node
    return result


def _newly_filled(shape: Shape, value: Any) -> FieldSet | None:
    """The node of a value that was there before, but empty; None when nothing in it is owned."""
    shape = effective(shape, value)
    if shape.form is Form.WHOLE:
        return {}
    if shape.form is Form.MAP:
        return newly_written(shape, value) or None
    return {label: node for label, node in everything(shape, value).items() if label != ITSELF} or None


def compare(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """What changed between two objects; values that are owned as a whole count as one field."""
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    _compare_maps(shape, old, new, removed, modified, added)
    return Comparison(removed, modified, added)


def _compare_maps(
    shape: Shape,
    old: dict[str, Any],
    new: dict[str, Any],
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
) -> None:
    fields, element = shape.fields, shape.element
    for key, after in new.items():
        before = old.get(key)
        if before is after or before == after:
            continue
        member = fields.get(key) or (Member(element, f"f:{key}") if element else None)
        if member is not None:
            _compare_values(member, before, after, removed, modified, added)
    for key, before in old.items():
        if before is None or key in new:
            continue
        member = fields.get(key) or (Member(element, f"f:{key}") if element else None)
        if member is not None:
            _compare_values(member, before, None, removed, modified, added)


def _compare_values(
    member: Member, old: Any, new: Any, removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    """Notes under the member's label what changed; a value that is None is not there."""
    label, shape = member.label, member.shape
    if member.always:  # a typed server has an empty value where we have none
        empty: Any = [] if shape.form in (Form.KEYED, Form.SET) else {}
        old = empty if old is None else old
        new = empty if new is None else new
    if old is None or new is None:
        if new is not None:
            added[label] = everything(shape, new)
        elif old is not None:
            removed[label] = everything(shape, old)
        return
    old_shape, new_shape = effective(shape, old), effective(shape, new)
    if not old and not new:
        if old.__class__ is not new.__class__:
            modified[label] = {}
    elif old_shape is not new_shape or new_shape.form is Form.WHOLE:
        if not same(old, new):
            modified[label] = {}
    else:
        below: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        if new_shape.form is Form.MAP:
            _compare_maps(new_shape, old, new, *below)
        else:
            _compare_lists(new_shape, old, new, *below)
        for inner, outer in zip(below, (removed, modified, added), strict=True):
            if inner:
                outer[label] = inner


def _compare_lists(
    shape: Shape, old: list[Any], new: list[Any], removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    assert shape.element is not None
    before, after = _by_label(shape, old), _by_label(shape, new)
    for label in {**before, **after}:
        olds, news = before.get(label, []), after.get(label, [])
        if len(olds) < 2 and len(news) < 2:
            member = Member(shape.element, label)
            _compare_values(
                member, olds[0] if olds else None, news[0] if news else None, removed, modified, added
            )
        elif not same(olds, news):  # duplicates are compared as one
            target = modified if olds and news else added if news else removed
            target[label] = {}


def _by_label(shape: Shape, elements: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for element in elements:
        result.setdefault(shape.label(element), []).append(element)
    return result


def merge(shape: Shape, live: Any, applied: Any) -> Any:
    """`live` with what is applied laid over it: objects and keyed lists merge, the rest is replaced."""
    if live is None or applied is None:
        return live if applied is None else applied
    live_shape, shape = effective(shape, live), effective(shape, applied)
    if shape.form is Form.WHOLE or live_shape is not shape:
        return applied
    if shape.form is not Form.MAP:
        return _merge_lists(shape, live, applied)
    result = dict(live)
    for key, value in applied.items():
        inner = shape.child(key)
        result[key] = value if inner is None else merge(inner, live.get(key), value)
    return result


def _merge_lists(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Applied elements in their order; those only the live list has stay where they were between them."""
    assert shape.element is not None
    present = {
        label: items[0] if len(items) == 1 else None for label, items in _by_label(shape, live).items()
    }
    wanted = {shape.label(each): each for each in applied}
    waiting = [(shape.label(each), each) for each in live]
    shared = [label for label in wanted if label in present]
    done: set[str] = set()
    result = []
    for label, value in wanted.items():
        # Live-only elements ahead of the next shared one come first; shared ones met too early wait their turn.
        while waiting and waiting[0][0] != label:
            ahead, element = waiting[0]
            if ahead not in wanted:
                result.append(element)
            elif ahead not in done and not (shared and shared[0] != ahead):
                break
            waiting.pop(0)
        if waiting and waiting[0][0] == label:
            waiting.pop(0)
        if shared and shared[0] == label:
            shared.pop(0)
        done.add(label)
        result.append(merge(shape.element, present.get(label), value))
    return result + [element for label, element in waiting if label not in wanted]


def remove(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """`value` without those fields; objects and lists that lose all they had stay as empty ones."""
    shape = effective(shape, value)
    if shape.form is Form.WHOLE or not fields or not value:
        return value
    if shape.form is Form.MAP:
        return _remove_members(shape, value, fields)
    assert shape.element is not None
    result = []
    for element in value:
        node = fields.get(shape.label(element))
        if node is None:
            result.append(element)
        elif not is_member(node):
            result.append(remove(shape.element, element, node))
    return result


def _remove_members(shape: Shape, value: dict[str, Any], fields: FieldSet) -> dict[str, Any]:
    result = {}
    for key, child in value.items():
        node = fields.get(f"f:{key}")
        inner = shape.child(key)
        if node is None or inner is None:
            result[key] = child
        elif not is_member(node):
            result[key] = remove(inner, child, node)
    return result


def tidied(shape: Shape, value: Any) -> Any:
    """`value` without the empty lists and maps a typed server does not show."""
    shape = effective(shape, value)
    if shape.form is Form.MAP:
        result = {}
        for key, child in value.items():
            member = shape.fields.get(key)
            if not (member and member.omits_empty and not child and isinstance(child, (dict, list))):
                result[key] = tidied(shape.child(key) or WHOLE, child)
        return result
    if shape.form is Form.KEYED:
        return [tidied(shape.element or WHOLE, child) for child in value]
    return value


def with_named_parents(shape: Shape, fields: FieldSet) -> FieldSet:
    """The set, and every named field that leads to something in it."""
    result: FieldSet = {}
    for label, node in fields.items():
        if label == ITSELF:
            result[label] = node
            continue
        named, inner = False, shape.element or WHOLE
        if label.startswith("f:"):
            named = label[2:] in shape.fields
            inner = shape.child(label[2:]) or WHOLE
        if inner is DEDUCED:
            inner = _DEDUCED_MAP
        below = with_named_parents(inner, node)
        result[label] = {ITSELF: {}, **below} if named and below and ITSELF not in below else below
    return result


def undeclared(shape: Shape, value: Any, path: str = "") -> list[str]:
    """Complaints about fields the shape does not know. Raises ValueError when a list's element lacks a key."""
    shape = effective(shape, value)
    if shape.form is Form.MAP:
        found = []
        for key, child in value.items():
            inner = shape.child(key)
            if inner is None:
                found.append(f"{path}.{key}: field not declared in schema")
            else:
                found += undeclared(inner, child, f"{path}.{key}")
        return found
    if shape.form is not Form.KEYED:
        return []
    assert shape.element is not None
    return [
        text
        for child in value
        for text in undeclared(shape.element, child, path + path_element(shape.label(child)))
    ]


def duplicates(shape: Shape, value: Any, path: str = "") -> list[str]:
    """The elements of keyed lists and sets that occur twice. Raises ValueError when one lacks a key."""
    shape = effective(shape, value)
    found: list[str] = []
    if shape.form is Form.MAP:
        for key, child in value.items():
            found += duplicates(shape.child(key) or WHOLE, child, f"{path}.{key}")
    elif shape.form is not Form.WHOLE:
        assert shape.element is not None
        for label, elements in _by_label(shape, value).items():
            element = path_element(label)
            if len(elements) > 1:
                found.append(f"{path}: duplicate entries for key {element}")
            found += duplicates(shape.element, elements[0], path + element)
    return found


def _put(result: FieldSet, label: str, below: FieldSet, *, owned: bool) -> None:
    if owned:
        result[label] = {ITSELF: {}, **below} if below else {}
    elif below:
        result[label] = below

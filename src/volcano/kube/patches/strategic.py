"""Strategic merge patches: lists of objects merge by their key, and directives delete, replace and order."""

from collections.abc import Callable, Iterable
from typing import Any

from volcano.kube.api import type_info
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.type_info import Field, Type
from volcano.kube.patches.patch import PatchError

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList/"
SET_ORDER = "$setElementOrder/"

Identity = Callable[[Any], Any]


def strategic_merge(type_: Type, current: Manifest, patch: Manifest) -> Manifest:
    """Applies a strategic merge patch by the merge keys of the type. Raises PatchError; arguments are not
    modified."""
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch must be an object")
    return _merge(type_, current, patch)


def _merge(type_: Type | None, current: Manifest, patch: Manifest) -> Manifest:
    if DIRECTIVE in patch:
        return _directed(patch)
    result = _retained(current, patch)
    ordered = {key.removeprefix(SET_ORDER): key for key in patch if key.startswith(SET_ORDER)}
    for key, directive in ordered.items():
        if not isinstance(patch.get(key, []), list):
            raise PatchError(
                f"invalid patch format of setElementOrder list: {key} itself must be a list if given"
            )
        _merge_ordered(result, key, patch.get(key), patch[directive], _field(type_, key))
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_scalars(result, key.removeprefix(DELETE_FROM), value)
        elif not key.startswith(SET_ORDER) and key not in ordered and key != RETAIN_KEYS:
            _merge_member(result, key, value, _field(type_, key))
    return result


def _directed(patch: Manifest) -> Manifest:
    match patch[DIRECTIVE]:
        case "replace":
            return {
                key: _plain(value) for key, value in patch.items() if key != DIRECTIVE and value is not None
            }
        case "delete":
            return {}
    raise PatchError(f"unknown patch type: {patch[DIRECTIVE]} in an object; choose from delete and replace")


def _retained(current: Manifest, patch: Manifest) -> Manifest:
    """Returns `current` without the keys that a $retainKeys directive does not name."""
    if RETAIN_KEYS not in patch:
        return dict(current)
    kept = patch[RETAIN_KEYS]
    changed = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    is_valid = isinstance(kept, list) and all(isinstance(key, str) for key in kept)
    if not is_valid or not changed <= set(kept):
        raise PatchError("invalid patch format of retainKeys: it must list every key the patch sets")
    return {key: value for key, value in current.items() if key in kept}


def _field(type_: Type | None, key: str) -> Field | None:
    return type_.fields.get(key) if type_ else None


def _merge_member(result: Manifest, key: str, value: Any, about: Field | None) -> None:
    before = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict) and isinstance(before, dict) and not _replaces(about):
        inner = type_info.named(about.type) if about and about.is_object and about.container == "" else None
        if about and about.container == "map" and about.is_object:
            result[key] = _merge_map(type_info.named(about.type), before, value)
        else:
            result[key] = _merge(inner, before, value)
    elif isinstance(value, list) and isinstance(before, list) and about and "merge" in about.strategies:
        result[key] = _merge_lists(before, value, about)
    elif isinstance(value, dict) and DIRECTIVE in value:
        result.pop(key, None)
    else:
        result[key] = _plain(value)


def _replaces(about: Field | None) -> bool:
    return about is not None and "replace" in about.strategies


def _merge_map(type_: Type, before: Manifest, patch: Manifest) -> Manifest:
    """Merges a map of objects of one type, member by member."""
    if DIRECTIVE in patch:
        return _directed(patch)
    result = dict(before)
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merge(type_, result[key], value)
        else:
            _merge_member(result, key, value, None)
    return result


def _merge_lists(before: list[Any], patch: list[Any], about: Field) -> list[Any]:
    """Merges a list: elements of the patch in its order, the others at their position."""
    if not any(isinstance(each, dict) for each in (*before, *patch)):
        merged = list(dict.fromkeys(_itself(each) for each in (*before, *patch)))
        return _interleaved(merged, patch, before, _itself)
    identity = _by_key(about)
    before, changes = _without_directives(before, patch, identity)
    merged = list(before)
    places = {identity(each): place for place, each in enumerate(merged)}
    for each in changes:
        place = places.get(identity(each))
        if place is None:
            places[identity(each)] = len(merged)
            merged.append(_plain(each))
        else:
            merged[place] = _merge(
                type_info.named(about.type) if about.is_object else None, merged[place], each
            )
    return _interleaved(merged, changes, before, identity)


def _without_directives(
    before: list[Any], patch: list[Any], identity: Identity
) -> tuple[list[Any], list[Any]]:
    """Applies the elements with a directive; returns the list without deleted elements, and the other
    elements."""
    changes, replaced = [], False
    for each in patch:
        match each.get(DIRECTIVE) if isinstance(each, dict) else None:
            case None:
                changes.append(each)
            case "delete":
                gone = identity(each)
                before = [kept for kept in before if identity(kept) != gone]
            case "replace":
                replaced = True
            case unknown:
                raise PatchError(f"unknown patch type: {unknown} in a list; choose from delete and replace")
    return ([_plain(each) for each in changes], []) if replaced else (before, changes)


def _merge_ordered(result: Manifest, key: str, changes: Any, order: Any, about: Field | None) -> None:
    """Merges a list and orders its elements by a $setElementOrder directive."""
    before = result.get(key)
    if not isinstance(order, list):
        raise PatchError("invalid patch format of setElementOrder list")
    if not isinstance(before, (list, type(None))):
        raise PatchError(f"expected a list at {key}, but the object has {type(before).__name__}")
    if before is None and changes is None:
        return
    about = about or Field(key, 0, "string", "list")
    identity = _by_key(about) if about.merge_key else _itself
    _check_order(changes or [], order, identity)
    if before is None:
        merged = _plain(changes)
    elif changes is None:
        merged = before
    else:
        merged = _merge_lists(before, changes, about) if "merge" in about.strategies else _plain(changes)
    result[key] = _interleaved(merged, order, _reference_order(merged, before or [], identity), identity)


def _reference_order(merged: list[Any], before: list[Any], identity: Identity) -> list[Any]:
    """Returns the assumed order on the server: the rest of the old list, then as many new elements as it
    lost.

    parity: a real server compares with a list it has already changed in place.
    """
    old, now = {identity(each) for each in before}, {identity(each) for each in merged}
    left = [each for each in before if identity(each) in now]
    added = [each for each in merged if identity(each) not in old]
    return left + added[: len(before) - len(left)]


def _check_order(changes: list[Any], order: list[Any], identity: Identity) -> None:
    places = {identity(each): place for place, each in enumerate(order)}
    named = [identity(each) for each in changes if not (isinstance(each, dict) and DIRECTIVE in each)]
    found = [places.get(each, -1) for each in named]
    if order and (-1 in found or found != sorted(found)):
        raise PatchError(
            f"The order in patch list: {named} doesn't match $setElementOrder list: {list(places)}"
        )


def _interleaved(merged: list[Any], order: list[Any], server: list[Any], identity: Identity) -> list[Any]:
    """Returns the elements that `order` names in that order, the others before the ones they preceded on the
    server."""
    wanted = {identity(each): place for place, each in enumerate(order)}
    place = {identity(each): index for index, each in enumerate(server)}
    named = sorted(
        (each for each in merged if identity(each) in wanted), key=lambda each: wanted[identity(each)]
    )
    others = [each for each in merged if identity(each) not in wanted]
    result: list[Any] = []
    for each in named:
        here = place.get(identity(each))
        while others and here is not None and place.get(identity(others[0]), here) < here:
            result.append(others.pop(0))
        result.append(each)
    return result + others


def _delete_scalars(result: Manifest, key: str, gone: Any) -> None:
    if not isinstance(gone, list):
        raise PatchError("invalid patch format of primitive list")
    if isinstance(result.get(key), list):
        result[key] = [each for each in result[key] if each not in gone]


def _itself(element: Any) -> Any:
    if isinstance(element, list | dict):
        raise PatchError("a list of plain values was expected, not one with lists or objects in it")
    return element


def _by_key(about: Field) -> Identity:
    if not about.merge_key:
        raise PatchError(f"cannot merge lists without merge key for {about.json}")

    def identity(element: Any) -> Any:
        if not isinstance(element, dict) or about.merge_key not in element:
            raise PatchError(
                f"an element of {about.json} does not contain declared merge key: {about.merge_key}"
            )
        key = element[about.merge_key]
        if isinstance(key, list | dict):
            raise PatchError(
                f"the merge key {about.merge_key} of an element of {about.json} must be a plain value"
            )
        return key

    return identity


def _plain(value: Any) -> Any:
    """Returns a patch value to be used as it is: without nulls and directives."""
    if isinstance(value, dict):
        kept = ((key, each) for key, each in value.items() if each is not None and not key.startswith("$"))
        return {key: _plain(each) for key, each in kept if not _is_directive(each)}
    if isinstance(value, list):
        return _plain_elements(value)
    return value


def _plain_elements(values: Iterable[Any]) -> list[Any]:
    return [_plain(each) for each in values if not _is_directive(each)]


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value

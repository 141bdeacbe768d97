"""Lists of one kind, page by page, consistent as of the version of the first page."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.selection import Selection
from volcano.apiserver.storage.store import Collection, Store
from volcano.kube.api.errors import BadRequest, Cause, Gone, Invalid, Timeout
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query

TOO_OLD_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
TOO_OLD_VERSION = "The resourceVersion for the provided list is too old."
MAX_DIGITS = 20  # of a number of 64 bits
INCONSISTENT = -1


class ExpiredContinue(Gone):
    """The version of a continue token is too old; carries a token that continues with the present state."""

    def __init__(self, token: str) -> None:
        super().__init__(TOO_OLD_TOKEN)
        self.continue_token = token

    def status(self) -> Manifest:
        status = super().status()
        status["metadata"] = {"continue": self.continue_token}
        return status


@dataclass(frozen=True, slots=True)
class Page:
    """Objects of a list, and the token for the rest."""

    kind: Kind
    items: list[bytes]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    def encode(self) -> bytes:
        """The page as the JSON of a `...List` object."""
        metadata: dict[str, object] = {"resourceVersion": str(self.version)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return b'%b,"items":[%b]}' % (orjson.dumps(head)[:-1], b",".join(self.items))


def read_page(store: Store, collection: Collection, kind: Kind, selection: Selection, query: Query) -> Page:
    """The page of a list that `query` selects."""
    if query.continue_token:
        if query.resource_version and query.resource_version != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")
        version, start = _decode_token(query.continue_token)
    else:
        version, start = _wanted_version(store, query), None
    inconsistent = version == INCONSISTENT
    if inconsistent:
        version = store.committed_version
    if version < collection.history.horizon:
        if query.continue_token and start is not None:
            raise ExpiredContinue(_encode_token(INCONSISTENT, start))
        raise Gone(TOO_OLD_VERSION)
    records = _ordered(collection, version, selection, start)
    if not query.limit:
        return Page(kind, [record.data for record in records if _selected(selection, record)], version)
    return _cut(kind, selection, records, version, query.limit)


def select_all(store: Store, collection: Collection, selection: Selection) -> list[StoredObject]:
    """Every committed object that is selected, in order."""
    records = _ordered(collection, store.committed_version, selection, None)
    return [record for record in records if _selected(selection, record)]


def _selected(selection: Selection, record: StoredObject) -> bool:
    return selection.everything or selection.matches(record)


def _cut(kind: Kind, selection: Selection, records: list[StoredObject], version: int, limit: int) -> Page:
    items: list[bytes] = []
    for position, record in enumerate(records):
        if not _selected(selection, record):
            continue
        if len(items) == limit:
            remaining = len(records) - position if selection.everything else None
            return Page(kind, items, version, _encode_token(version, record.key), remaining)
        items.append(record.data)
    return Page(kind, items, version)


def _ordered(
    collection: Collection, version: int, selection: Selection, start: Key | None
) -> list[StoredObject]:
    """The objects of the selection's namespace as of `version`, in order; only candidates where an index
    applies."""
    changed = collection.changed_since(version) if collection.history.newest_version() > version else {}
    keys: Iterable[Key] | None = _indexed(collection, selection)
    if keys is None:
        keys = collection.range(selection.namespace, start)
    if not changed:
        records = collection.records
        return [records[key] for key in keys]
    candidates = {key for key in (*keys, *changed) if start is None or key >= start}
    if selection.namespace:
        candidates = {key for key in candidates if key.namespace == selection.namespace}
    found = (changed.get(key, collection.records.get(key)) for key in sorted(candidates))
    return [record for record in found if record is not None]


def _indexed(collection: Collection, selection: Selection) -> list[Key] | None:
    """The keys that an index yields for the selection; None when no index applies."""
    only = selection.only_key()
    if only is not None:
        return [only] if only in collection.records else []
    for field, value in selection.exact:
        if field in collection.indexes:
            return sorted(collection.indexes[field][1].get(value, ()))
    return None


def _wanted_version(store: Store, query: Query) -> int:
    text, match = query.resource_version, query.resource_version_match
    if match and not text:
        raise _forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        raise Invalid(
            f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "{match}": supported '
            'values: "Exact", "NotOlderThan"',
            causes=[Cause("FieldValueNotSupported", f'Unsupported value: "{match}"', "resourceVersionMatch")],
        )
    if not text or text == "0":
        if match == "Exact":
            raise _forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        return store.committed_version
    version = parse_version(text)
    if version > store.committed_version:
        raise Timeout(
            f"Too large resource version: {version}, current: {store.committed_version}",
            causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
            retry_after=1,
        )
    # As in kube-apiserver, a page of a list from a given version is of exactly that version.
    return version if match == "Exact" or (query.limit and not match) else store.committed_version


def parse_version(text: str) -> int:
    """A resourceVersion parameter as a number of 64 bits. Raises Invalid when it is none."""
    is_number = text.isascii() and text.isdigit()
    if not is_number or len(text) > MAX_DIGITS or int(text) >= 2**64:
        shown, problem = text[:100], "value out of range" if is_number else "invalid syntax"
        raise Invalid(
            f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": {problem}',
            causes=[Cause("FieldValueInvalid", f'Invalid value: "{shown}"', "resourceVersion")],
        )
    return int(text)


def _forbidden_match(message: str) -> Invalid:
    return Invalid(
        f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {message}',
        causes=[Cause("FieldValueForbidden", f"Forbidden: {message}", "resourceVersionMatch")],
    )


def _encode_token(version: int, start: Key) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": f"{start.namespace}/{start.name}"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, Key]:
    try:
        decoded = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, (namespace, slash, name) = decoded["rv"], decoded["start"].partition("/")
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
        raise BadRequest("continue key is not valid: it is not a token this server gave out") from None
    if not isinstance(version, int) or version < INCONSISTENT or not slash:
        raise BadRequest("continue key is not valid: it is not a token this server gave out")
    return version, Key(namespace, name)

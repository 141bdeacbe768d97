"""Decodes replies of API servers, parsing nothing twice."""

from collections.abc import Iterable, Sequence

import msgspec
import orjson

from volcano.base.http.messages import Headers
from volcano.kube.api.errors import ApiError, InternalError, Unavailable, from_status
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Decode, Event, EventType, Listing

MAX_LINE = 64 << 20  # bytes; an object of an API server has at most a few MiB


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - as on the wire
    continue_token: str = msgspec.field(name="continue", default="")
    remainingItemCount: int | None = None  # noqa: N815


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LIST = msgspec.json.Decoder(_List)
_LINE = msgspec.json.Decoder(_Line)
# The usual beginnings of a watch event: the object follows, up to the last brace.
_PREFIXES = {
    f'{{"type":"{kind}","object":'.encode(): kind for kind in (*(event.value for event in EventType), "ERROR")
}
_TYPES = {event.value: event for event in EventType}


def decode_list(body: bytes, kind: Kind, decode: Decode) -> Listing:
    """Decodes each object of a list from its own bytes."""
    try:
        listing = _LIST.decode(body)
    except msgspec.DecodeError as error:
        raise InternalError(f"the server's list of {kind.plural} cannot be read: {error}") from error
    prefix = _type_prefix(kind)
    items = [decode(_with_type(bytes(item), prefix)) for item in listing.items or ()]
    metadata = listing.metadata
    return Listing(items, metadata.resourceVersion, metadata.continue_token, metadata.remainingItemCount)


def _type_prefix(kind: Kind) -> bytes:
    return f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode()


def _with_type(item: bytes, prefix: bytes) -> bytes:
    """Adds apiVersion and kind, which servers omit from the items of a list."""
    if item.startswith((b'{"kind":', b'{"apiVersion":')):
        return item
    return prefix + item[1:] if len(item) > 2 else prefix[:-1] + b"}"


class LineSplitter:
    """Splits a stream of bytes into lines of at most MAX_LINE bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0  # of the parts

    def feed(self, data: bytes) -> Sequence[bytes]:
        """Returns the complete lines without line ends; empty ones are omitted. Raises Unavailable."""
        head, newline, tail = data.partition(b"\n")
        self._parts.append(head)
        self._size += len(head)
        if self._size > MAX_LINE:
            raise Unavailable(f"the server's stream has a line of more than {MAX_LINE >> 20} MiB")
        if not newline:
            return ()
        first = b"".join(self._parts)
        *lines, last = tail.split(b"\n")
        self._parts, self._size = ([last] if last else []), len(last)
        return [line for line in (first, *lines) if line]


def decode_event(line: bytes, kind: Kind, decode: Decode) -> Event:
    """Decodes one line of a watch. Raises the `ApiError` of an ERROR event. Bookmarks are plain manifests."""
    name, body = _split_line(line)
    if name == "ERROR":
        raise from_status(_manifest(body))
    event_type = _TYPES.get(name)
    if event_type is None:
        raise InternalError(f"the server's watch of {kind.plural} sent an event of unknown type {name!r}")
    chosen = orjson.loads if event_type is EventType.BOOKMARK else decode
    try:
        return Event(event_type, kind, chosen(body))
    except (orjson.JSONDecodeError, msgspec.DecodeError) as error:
        raise Unavailable(f"the server's watch of {kind.plural} cannot be read: {error}") from error


def _split_line(line: bytes) -> tuple[str, bytes]:
    """Splits a watch event into its type and the object's bytes; the usual format without parsing."""
    end = line.find(b'"object":') + 9
    name = _PREFIXES.get(line[:end])
    if name is not None and line.endswith(b"}"):
        return name, line[end:-1]
    try:
        event = _LINE.decode(line)
    except msgspec.DecodeError as error:
        raise Unavailable(f"a watch event cannot be read: {error}") from error
    return event.type, bytes(event.object)


def error_of_reply(status: int, headers: Headers, body: bytes) -> ApiError:
    """Returns the error of an unsuccessful reply."""
    manifest = _manifest(body)
    if manifest.get("kind") != "Status":
        text = body.decode("utf-8", "replace").strip()
        manifest = {"message": f"the server answered {status}" + (f": {text[:500]}" if text else "")}
    return from_status(manifest, status, retry_after(headers))


def retry_after(headers: Headers) -> int | None:
    """Returns the seconds of a Retry-After header; None without one."""
    text = headers.get("retry-after", "")
    return int(text) if text.isdigit() else None


def _manifest(body: bytes) -> Manifest:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def decode_batch(lines: Iterable[bytes], kind: Kind, decode: Decode) -> tuple[list[Event], ApiError | None]:
    """Decodes the events of some lines of a watch, up to the first error, if any."""
    group: list[Event] = []
    try:
        for line in lines:
            group.append(decode_event(line, kind, decode))
    except ApiError as error:
        return group, error
    return group, None

"""Pod subresources served by the kubelet: log, exec, attach and portforward."""

from collections.abc import AsyncIterator

from volcano.apiserver.endpoints.parameters import flag, integer
from volcano.apiserver.interfaces import LogOptions, LogSource, StreamSource
from volcano.base.clock import parse_timestamp
from volcano.base.http.messages import Answer, Request, Stream
from volcano.kube.api.errors import ApiError, BadRequest, Cause, Invalid
from volcano.kube.api.manifest import Manifest

# Values of the `stream` parameter and the stream name in a container log; empty is both.
STREAMS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}
CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


class Unsupported(ApiError):
    """Error for operations that Kubernetes supports and this server does not (501)."""

    code, reason = 501, "NotImplemented"


async def log_response(source: LogSource | None, pod: Manifest, request: Request, now: float) -> Answer:
    """Response to `pods/log`."""
    options = _options(pod, request, now)
    headers = {"Content-Type": "text/plain"}
    scheduled = (pod.get("spec") or {}).get("nodeName")
    if not scheduled:
        return Stream(_empty(), 200, headers)
    if source is None:
        raise no_process("log", pod)
    chunks = await source.open_log(pod, options)
    limited = chunks if options.limit_bytes is None else _limited(chunks, options.limit_bytes)
    return Stream(limited, 200, headers, allow_stall=True)


async def connect_response(
    source: StreamSource | None, subresource: str, pod: Manifest, request: Request
) -> Answer:
    """Response to `pods/exec`, `pods/attach` and `pods/portforward`."""
    if subresource != "portforward":
        container_of(pod, request.parameter("container"))
    if not (pod.get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    if source is None:
        raise no_process(subresource, pod)
    return await source.connect(subresource, pod, request)


def no_process(subresource: str, pod: Manifest) -> Unsupported:
    """Error for a subresource that needs a running process, on a simulated node."""
    name = pod["metadata"]["name"]
    return Unsupported(
        f'{subresource} is not possible on pod "{name}": it runs on a simulated node, where no process backs it',
        name=name,
        kind="pods",
    )


def _options(pod: Manifest, request: Request, now: float) -> LogOptions:
    name = pod["metadata"]["name"]
    tail = integer(request, "tailLines")
    limit = integer(request, "limitBytes")
    if tail is not None and tail < 0:
        raise _invalid(name, "tailLines", f"Invalid value: {tail}: must be greater than or equal to 0")
    if limit is not None and limit < 1:
        raise _invalid(name, "limitBytes", f"Invalid value: {limit}: must be greater than 0")
    return LogOptions(
        container_of(pod, request.parameter("container")),
        flag(request, "follow"),
        flag(request, "previous"),
        tail,
        _since(name, request, now),
        flag(request, "timestamps"),
        limit,
        _stream(name, request, tail),
    )


def _stream(name: str, request: Request, tail: int | None) -> str:
    stream = request.parameter("stream")
    if stream not in STREAMS:
        known = ", ".join(f'"{choice}"' for choice in STREAMS if choice)
        message = f'Unsupported value: "{stream[:100]}": supported values: {known}'
        raise _invalid(name, "stream", message, "FieldValueNotSupported")
    if STREAMS[stream] and tail is not None:
        message = "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"
        raise _invalid(name, "stream", message, "FieldValueForbidden")
    return STREAMS[stream]


def _since(name: str, request: Request, now: float) -> float | None:
    seconds, moment = integer(request, "sinceSeconds"), request.parameter("sinceTime")
    if seconds is not None and moment:
        raise _invalid(
            name, "sinceSeconds", "Forbidden: at most one of sinceTime or sinceSeconds may be specified"
        )
    if seconds is not None:
        if seconds < 1:
            raise _invalid(name, "sinceSeconds", f"Invalid value: {seconds}: must be greater than 0")
        return now - seconds
    if not moment:
        return None
    try:
        return parse_timestamp(moment)
    except ValueError:
        raise BadRequest(f'sinceTime "{moment[:100]}" is not an RFC 3339 time') from None


def container_of(pod: Manifest, requested: str) -> str:
    """Container of a request: the one it names, or the only one."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    names = {field: [str(c.get("name", "")) for c in spec.get(field) or ()] for field in CONTAINER_FIELDS}
    if requested:
        if any(requested in group for group in names.values()):
            return requested
        raise BadRequest(f"container {requested[:300]} is not valid for pod {name}")
    if len(names["containers"]) == 1:
        return names["containers"][0]
    inits = (
        f" or one of the init containers: [{' '.join(names['initContainers'])}]"
        if names["initContainers"]
        else ""
    )
    choices = " ".join(names["containers"])
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{choices}]{inits}")


def _invalid(pod: str, field: str, message: str, reason: str = "FieldValueInvalid") -> Invalid:
    return Invalid(
        f'PodLogOptions "{pod}" is invalid: {field}: {message}',
        causes=[Cause(reason, message, field)],
        name=pod,
        kind="PodLogOptions",
    )


async def _empty() -> AsyncIterator[bytes]:
    yield b""


async def _limited(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    left = limit
    try:
        async for chunk in chunks:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return
    finally:
        await _close(chunks)


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Closes a log stream at once, so that its source stops following."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()

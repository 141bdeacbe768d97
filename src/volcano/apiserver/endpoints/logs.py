"""What a pod's processes say and hear: its log, and the seams for exec, attach and port-forward."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from volcano.apiserver.endpoints.parameters import flag, whole_number
from volcano.clock import parse_timestamp
from volcano.kube.errors import ApiError, BadRequest, Cause, Invalid
from volcano.kube.manifest import Manifest
from volcano.net.messages import Answer, Request, Stream

# What a client may ask for, and the word for it in a log.
OUTPUTS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of which container's log is wanted."""

    container: str
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    since: float | None = None  # wall time
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""  # stdout or stderr; empty is both


class LogSource(Protocol):
    """Where logs come from: whoever runs the pods."""

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        """The log as it comes; raises an `ApiError` when there is none, such as before the container starts."""
        ...


class StreamSource(Protocol):
    """What connects a client with a container: whoever runs the pods."""

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        """Takes over an exec, attach or portforward request; raises an `ApiError` to refuse."""
        ...


class Unsupported(ApiError):
    """Something a real cluster does and this one does not."""

    code, reason = 501, "NotImplemented"


async def log_answer(source: LogSource | None, pod: Manifest, request: Request, now: float) -> Answer:
    """The answer to `pods/log`."""
    options = _options(pod, request, now)
    headers = {"Content-Type": "text/plain"}
    scheduled = (pod.get("spec") or {}).get("nodeName")
    if not scheduled:
        return Stream(_nothing(), 200, headers)
    if source is None:
        raise no_process("log", pod)
    chunks = await source.open_log(pod, options)
    limited = chunks if options.limit_bytes is None else _limited(chunks, options.limit_bytes)
    return Stream(limited, 200, headers, allow_stall=True)


async def connect_answer(
    source: StreamSource | None, subresource: str, pod: Manifest, request: Request
) -> Answer:
    """The answer to `pods/exec`, `pods/attach` and `pods/portforward`."""
    if subresource != "portforward":
        container_of(pod, request.parameter("container"))
    if not (pod.get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    if source is None:
        raise no_process(subresource, pod)
    return await source.connect(subresource, pod, request)


def no_process(subresource: str, pod: Manifest) -> Unsupported:
    """The refusal of what only a pod with processes can do."""
    name = pod["metadata"]["name"]
    return Unsupported(
        f'{subresource} is not possible on pod "{name}": it runs on a simulated node, where no process backs it',
        name=name,
        kind="pods",
    )


def _options(pod: Manifest, request: Request, now: float) -> LogOptions:
    name = pod["metadata"]["name"]
    tail = whole_number(request, "tailLines")
    limit = whole_number(request, "limitBytes")
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
        _output(name, request, tail),
    )


def _output(name: str, request: Request, tail: int | None) -> str:
    wanted = request.parameter("stream")
    if wanted not in OUTPUTS:
        known = ", ".join(f'"{output}"' for output in OUTPUTS if output)
        message = f'Unsupported value: "{wanted[:100]}": supported values: {known}'
        raise _invalid(name, "stream", message, "FieldValueNotSupported")
    if OUTPUTS[wanted] and tail is not None:
        message = "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"
        raise _invalid(name, "stream", message, "FieldValueForbidden")
    return OUTPUTS[wanted]


def _since(name: str, request: Request, now: float) -> float | None:
    seconds, moment = whole_number(request, "sinceSeconds"), request.parameter("sinceTime")
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


def container_of(pod: Manifest, wanted: str) -> str:
    """The container a request is about: the one it names, or the only one."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    names = {field: [str(c.get("name", "")) for c in spec.get(field) or ()] for field in CONTAINERS}
    if wanted:
        if any(wanted in group for group in names.values()):
            return wanted
        raise BadRequest(f"container {wanted[:300]} is not valid for pod {name}")
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


async def _nothing() -> AsyncIterator[bytes]:
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
        await _let_go(chunks)


async def _let_go(chunks: AsyncIterator[bytes]) -> None:
    """Whoever follows a log hears at once that nobody listens any more."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()

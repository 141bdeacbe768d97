"""Serves exec, attach and port-forward for pods on this host."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Connection, Request, Upgrade
from volcano.base.http.websocket import WebSocket, accept, is_websocket
from volcano.base.log import Log
from volcano.kube.api.errors import BadRequest, Forbidden, InternalError
from volcano.kube.api.manifest import Manifest, key_of, uid_of
from volcano.nodes.cri import Process, Runtime
from volcano.nodes.kubelet.streams import channels, spdy_session
from volcano.nodes.kubelet.streams.portforward import ChannelForwarder, SpdyForwarder, Target, ports_of
from volcano.nodes.kubelet.streams.session import (
    SUCCESS,
    Channel,
    StreamClient,
    StreamOptions,
    exit_status,
    internal_error,
    run_session,
)
from volcano.nodes.shim.specs import Failure

log = Log("streams")

SPDY = "SPDY/3.1"
PORT_FORWARD = "portforward.k8s.io"
TUNNELLED = f"{SPDY}+{PORT_FORWARD}"
PROTOCOL_HEADER = "x-stream-protocol-version"
STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
TRUE = frozenset({"1", "t", "true"})


def running_by_status(pod: Manifest) -> Collection[str]:
    """The running containers of a pod according to its status."""
    status = pod.get("status") or {}
    states = [each for field in STATUSES for each in status.get(field) or ()]
    return [each["name"] for each in states if "running" in (each.get("state") or {})]


@dataclass(frozen=True, slots=True)
class _StreamHandler:
    """One exec or attach: starts the process and reports its exit status."""

    begin: Callable[[], Awaitable[Process]]
    options: StreamOptions
    status_for: Callable[[int], Manifest]
    clock: Clock

    async def over_websocket(self, websocket: WebSocket) -> None:
        client = channels.ChannelClient(websocket)
        first_channel = (
            Channel.STDOUT
            if self.options.stdout
            else Channel.STDERR
            if self.options.stderr
            else Channel.ERROR
        )
        await client.send_empty(first_channel)
        await self._run(client)

    async def over_spdy(self, connection: Connection) -> None:
        client = spdy_session.SpdyClient(connection, self.options)
        try:
            if await client.ready():
                await self._run(client)
        finally:
            await client.close()

    async def _run(self, client: StreamClient) -> None:
        try:
            try:
                process = await self.begin()
            except (Failure, OSError) as error:
                await client.finish(internal_error(str(error)))
                return
            code = await run_session(process, client, self.options, self.clock)
            if code is not None:
                await client.finish(self.status_for(code))
        except ConnectionError as error:
            log.info("stream client disconnected", reason=str(error))
        except Exception as error:  # a bug must not be reported as success
            log.error("stream failed", error=error)
            with suppress(ConnectionError):
                await client.finish(internal_error(f"{type(error).__name__} in the API server"))


@dataclass(frozen=True, slots=True)
class PodStreams:
    """Serves `pods/exec`, `pods/attach` and `pods/portforward` with the runtime of the pods.

    `running` returns the names of a pod's running containers.
    """

    runtime: Runtime
    clock: Clock
    running: Callable[[Manifest], Collection[str]] = running_by_status

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        """Answers a request that upgrades its connection; raises an ApiError to reject it."""
        if subresource == "portforward":
            return self._port_forward(pod, request)
        container = request.parameter("container") or pod["spec"]["containers"][0]["name"]
        if container not in self.running(pod):
            raise InternalError(f'unable to upgrade connection: container not found ("{container}")')
        options = _stream_options(request)
        uid, runtime, status_for = uid_of(pod), self.runtime, exit_status
        if subresource == "exec":
            command = request.query.get("command") or []
            if not command or not command[0]:
                raise BadRequest("you must specify at least one command for the container")

            async def begin() -> Process:
                return await runtime.execute(
                    uid,
                    container,
                    command,
                    stdin=options.stdin,
                    stdout=options.stdout or options.tty,
                    stderr=options.stderr,
                    tty=options.tty,
                )
        else:
            status_for = _detached

            async def begin() -> Process:
                return await runtime.attach(uid, container)

        return _upgraded(request, _StreamHandler(begin, options, status_for, self.clock))

    def _port_forward(self, pod: Manifest, request: Request) -> Answer:
        if not self.running(pod):
            phase = (pod.get("status") or {}).get("phase", "Pending")
            raise InternalError(f"unable to forward port because pod is not running. Current status={phase}")
        key = key_of(pod)
        target = Target(self.runtime, uid_of(pod), f"{key.name}_{key.namespace}")
        if is_websocket(request):
            offered = request.headers.get("sec-websocket-protocol", "")
            if TUNNELLED in [name.strip() for name in offered.split(",")]:
                return accept(request, SpdyForwarder(target, self.clock).tunnel, protocols=[TUNNELLED])
            ports = ports_of(request.query.get("ports") or request.query.get("port") or [])
            return accept(
                request, ChannelForwarder(target, ports, self.clock).serve, protocols=channels.NAMES
            )
        return _spdy(request, (PORT_FORWARD,), SpdyForwarder(target, self.clock).serve)


def _upgraded(request: Request, session: _StreamHandler) -> Answer:
    if is_websocket(request):
        return accept(request, session.over_websocket, protocols=channels.NAMES)
    return _spdy(request, spdy_session.NAMES, session.over_spdy)


def _spdy(request: Request, known: tuple[str, ...], serve: Callable[[Connection], Awaitable[None]]) -> Answer:
    """Upgrades to SPDY with the first supported protocol of the client."""
    if SPDY.lower() not in request.headers.get("upgrade", "").lower():
        raise BadRequest("Upgrade request required")
    offered = [name.strip() for name in request.headers.get(PROTOCOL_HEADER, "").split(",") if name.strip()]
    chosen = next((name for name in offered if name in known), "")
    if not chosen:
        raise Forbidden(
            "unable to upgrade: unable to negotiate protocol: "
            f"client supports [{' '.join(offered)}], server accepts [{' '.join(known)}]"
        )
    return Upgrade(serve, {"Upgrade": SPDY, "X-Stream-Protocol-Version": chosen})


def _stream_options(request: Request) -> StreamOptions:
    def asked(name: str) -> bool:
        return request.parameter(name).lower() in TRUE

    tty = asked("tty")
    options = StreamOptions(asked("stdin"), asked("stdout"), asked("stderr") and not tty, tty)
    if not (options.stdin or options.stdout or options.stderr):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return options


def _detached(code: int) -> Manifest:
    """The status at the end of attach; the exit code is in the container's status."""
    return SUCCESS

"""Connections to the kubelets of nodes: logs, exec, attach and port-forward of their pods, and `nodes/proxy`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from volcano.apiserver.errors import not_found
from volcano.apiserver.interfaces import LogOptions, Lookup
from volcano.apiserver.proxy.forwarding import Backend, forward, is_upgrade
from volcano.apiserver.proxy.locations import NOT_ALLOWED, ProxyTarget, is_proxyable
from volcano.base.clock import micro_timestamp
from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import Answer, Exchange, Request
from volcano.base.http.tls_context import Credential, client_context
from volcano.kube.api.errors import ApiError, BadRequest, InternalError, NotFound, Unavailable
from volcano.kube.api.kinds import NODE
from volcano.kube.api.manifest import Key, Manifest, key_of, labels_of
from volcano.kube.api.names import SIMULATED

# As kubeadm configures it, with names of hosts last.
ADDRESS_TYPES = ("InternalIP", "Hostname", "ExternalIP", "InternalDNS", "ExternalDNS")
CLIENT_NAME = "kube-apiserver-kubelet-client"
HEAD_TIMEOUT = 60.0  # seconds for the head of a log
MAX_ERROR_BYTES = 2048
TRUE = frozenset({"1", "t", "true"})
# Parameters of exec and attach, and their names in the kubelet's API.
STREAM_PARAMETERS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


class KubeletError(ApiError):
    """The kubelet of a node cannot be reached; kube-apiserver gives no reason."""

    code, reason = 500, ""


class NoKubelet(ApiError):
    """The node has no kubelet with an API of its own (501)."""

    code, reason = 501, "NotImplemented"


@dataclass(frozen=True, slots=True)
class KubeletClientOptions:
    """How the API server connects to kubelets."""

    credential: Credential | None = None  # client certificate
    authority: bytes | None = None  # CA of kubelets' certificates (PEM); None: they are not verified
    address_types: Sequence[str] = ADDRESS_TYPES  # in the order of preference


def no_node(name: str) -> bool:
    """Without local nodes, no node is served by this process."""
    return False


class KubeletConnections:
    """Connects to the kubelets that have registered a node. `is_local` nodes are served by this process."""

    def __init__(
        self,
        lookup: Lookup,
        dialer: Dialer,
        options: KubeletClientOptions,
        *,
        is_local: Callable[[str], bool] = no_node,
    ) -> None:
        self._lookup = lookup
        self._dialer = dialer
        self._options = options
        self._is_local = is_local
        self._tls = client_context(options.authority, options.credential, insecure=options.authority is None)
        self._unverified = client_context(insecure=True)

    def serves(self, pod: Manifest) -> bool:
        """Whether the pod is on a node with a kubelet of its own: neither simulated nor local."""
        name = pod["spec"].get("nodeName") or ""
        if not name or self._is_local(name):
            return False
        node = self._lookup.find(NODE, Key("", name))
        return node is None or SIMULATED not in labels_of(node)

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        """Streams the log of a container; raises an ApiError with the kubelet's message if there is none."""
        backend = self._kubelet(pod["spec"]["nodeName"])
        key = key_of(pod)
        target = _target(
            f"/containerLogs/{key.namespace}/{key.name}/{options.container}", _log_query(options)
        )
        async with AsyncExitStack() as stack:
            pool = backend.pool()
            stack.push_async_callback(pool.close)
            try:
                exchange = pool.stream("GET", target, timeout=HEAD_TIMEOUT)
                reply = await stack.enter_async_context(exchange)
                if reply.status not in range(200, 207):
                    text = (await reply.body.read())[:MAX_ERROR_BYTES].decode("utf-8", "replace").strip()
                    raise _log_error(reply.status, text, key.name)
            except RequestFailed as error:
                url = f"https://{backend.host}:{backend.port}{target}"
                raise KubeletError(f'Get "{url}": {error}') from None
            connected = stack.pop_all()

        async def chunks() -> AsyncIterator[bytes]:
            async with connected:
                while part := await reply.body.read():
                    yield part

        return chunks()

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        """Forwards exec, attach or port-forward to the kubelet; the upgraded connection is passed through."""
        if not is_upgrade(request):
            raise BadRequest("Upgrade request required")
        backend = self._kubelet(pod["spec"]["nodeName"])
        key = key_of(pod)
        if subresource == "portforward":
            ports = [port for text in request.query.get("ports") or () for port in text.split(",")]
            target = _target(f"/portForward/{key.namespace}/{key.name}", [("port", port) for port in ports])
        else:
            container = request.parameter("container") or pod["spec"]["containers"][0]["name"]
            query = _stream_query(request, with_command=subresource == "exec")
            target = _target(f"/{subresource}/{key.namespace}/{key.name}/{container}", query)
        return Exchange(lambda: forward(request, backend, target))

    def node_backend(self, target: ProxyTarget) -> Backend:
        """The backend of `nodes/proxy`: the kubelet, or another port of its node."""
        node = self._node(target.name)
        kubelet = self._kubelet(target.name)
        if not target.port or target.port == str(_kubelet_port(node)):
            return kubelet
        if not is_proxyable(kubelet.host):
            raise BadRequest(NOT_ALLOWED)
        if not (target.port.isascii() and target.port.isdigit() and 0 < int(target.port[:10]) < 65536):
            raise BadRequest(
                f'invalid node request: port "{target.port[:100]}" is not a number from 1 to 65535'
            )
        tls = self._unverified if target.scheme == "https" else None
        return Backend(kubelet.host, int(target.port), self._dialer.dial_node, tls)

    def _node(self, name: str) -> Manifest:
        node = self._lookup.find(NODE, Key("", name))
        if node is None:
            raise not_found(NODE, name)
        return node

    def _kubelet(self, name: str) -> Backend:
        """The kubelet of a node, at the address of the preferred type."""
        node = self._node(name)
        if SIMULATED in labels_of(node):
            raise NoKubelet(f'node "{name}" is simulated: it has no kubelet', name=name, kind="nodes")
        if self._is_local(name):
            message = f'node "{name}" is a local node: its kubelet is part of the API server\'s process and has no API'
            raise NoKubelet(message, name=name, kind="nodes")
        port = _kubelet_port(node)
        if not port:
            field = "status.daemonEndpoints.kubeletEndpoint.Port"
            raise Unavailable(
                f'node "{name}" has no kubelet endpoint: {field} is not set', name=name, kind="nodes"
            )
        addresses = (node.get("status") or {}).get("addresses") or []
        for wanted in self._options.address_types:
            for address in addresses:
                if address.get("type") == wanted and address.get("address"):
                    return Backend(address["address"], port, self._dialer.dial_node, self._tls)
        known = " ".join(f"{{{each.get('type')} {each.get('address')}}}" for each in addresses)
        raise KubeletError(f"no preferred addresses found; known addresses: [{known}]")


def _kubelet_port(node: Manifest) -> int:
    endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
    return int((endpoints.get("kubeletEndpoint") or {}).get("Port") or 0)


def _target(path: str, query: Sequence[tuple[str, str]]) -> str:
    return quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")


def _log_query(options: LogOptions) -> list[tuple[str, str]]:
    query = [
        (name, "true")
        for name, wanted in (
            ("follow", options.follow),
            ("previous", options.previous),
            ("timestamps", options.timestamps),
        )
        if wanted
    ]
    if options.since is not None:
        query.append(("sinceTime", micro_timestamp(options.since)))
    if options.tail_lines is not None:
        query.append(("tailLines", str(options.tail_lines)))
    if options.limit_bytes is not None:
        query.append(("limitBytes", str(options.limit_bytes)))
    if options.stream:
        query.append(("stream", options.stream.capitalize()))
    return query


def _stream_query(request: Request, *, with_command: bool) -> list[tuple[str, str]]:
    chosen = [
        (parameter, "1")
        for name, parameter in STREAM_PARAMETERS.items()
        if request.parameter(name).lower() in TRUE
    ]
    commands = request.query.get("command") or [] if with_command else []
    return [*chosen, *(("command", word) for word in commands)]


def _log_error(status: int, text: str, name: str) -> ApiError:
    """The kubelet's error as the API server reports it."""
    match status:
        case 400:
            return BadRequest(text)
        case 500:
            return InternalError(f"Internal error occurred: {text}")
        case 404:
            message = f"the server could not find the requested resource ( pods/log {name})"
            return NotFound(message, name=name, kind="pods/log")
    return KubeletError(f"the kubelet answered {status}: {text}")

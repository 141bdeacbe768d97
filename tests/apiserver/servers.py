"""A whole API server to test with: the real registry, a virtual clock, requests without a network."""

import itertools
import json
from collections.abc import Collection, Mapping
from random import Random
from typing import Any
from urllib.parse import parse_qs, unquote

from volcano.apiserver.admission.chain import NO_PLUGIN, RESOURCE_PLUGINS
from volcano.apiserver.admission.podsecurity.policy import PodSecurityConfiguration
from volcano.apiserver.authn.access_control import AccessOptions
from volcano.apiserver.authn.tokens import new_signing_key
from volcano.apiserver.endpoints.computed import MetricsSource
from volcano.apiserver.interfaces import AdmissionPlugin, LogSource, StreamSource, User
from volcano.apiserver.proxy.kubelets import KubeletClientOptions, KubeletConnections
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.server import ApiServer, ServerOptions, controlled_registry
from volcano.apiserver.storage.store import Store
from volcano.base.clock import VirtualClock
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import Answer, Peer, Request, Response, Stream
from volcano.kube.api.manifest import Manifest

ADMIN_TOKEN = "the-admin"
SIGNING_KEY = new_signing_key()


class Answered:
    """A whole answer, decoded."""

    def __init__(self, answer: Response) -> None:
        self.code = answer.status
        self.headers = answer.headers
        self.body = answer.body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])


class TestServer:
    """An API server and a client of it."""

    __test__ = False

    def __init__(
        self,
        *,
        tokens: Mapping[str, User] | None = None,
        logs: LogSource | None = None,
        streams: StreamSource | None = None,
        store: Store | None = None,
        mutating: AdmissionPlugin = NO_PLUGIN,
        validating: AdmissionPlugin = NO_PLUGIN,
        disabled_plugins: Collection[str] = RESOURCE_PLUGINS,
        pod_security: PodSecurityConfiguration | None = None,
        dialer: Dialer | None = None,
        kubelets: KubeletClientOptions | None = None,
        resource_metrics: MetricsSource | None = None,
    ) -> None:
        self.clock = VirtualClock()
        uids, ids = itertools.count(1), itertools.count(1)
        controlled = controlled_registry(
            store or Store(),
            KindTable(built_in_kinds()),
            clock=self.clock,
            random=Random(1),
            new_uid=lambda: f"uid-{next(uids)}",
            access=AccessOptions(
                admin_token=ADMIN_TOKEN,
                signing_key=SIGNING_KEY,
                new_id=lambda: f"id-{next(ids)}",
                authority=b"the CA",
                known_tokens=tokens or {},
            ),
            mutating=mutating,
            validating=validating,
            disabled_plugins=disabled_plugins,
            pod_security=pod_security,
        )
        self.registry: Registry = controlled.registry
        self.audit: list[bytes] = []
        connections = None
        if kubelets is not None:
            connections = KubeletConnections(self.registry.lookup, dialer or Dialer(), kubelets)
            logs, streams = connections, connections
        self.api = ApiServer(
            controlled,
            ServerOptions(
                new_id=lambda: f"id-{next(ids)}",
                random=Random(1),
                address="127.0.0.1:6443",
                logs=logs,
                streams=streams,
                dialer=dialer,
                kubelets=connections,
                audit=_Lines(self.audit),
                resource_metrics=resource_metrics,
            ),
        )

    async def start(self) -> "TestServer":
        await self.api.start()
        return self

    async def send(
        self,
        method: str,
        target: str,
        body: Any = b"",
        *,
        token: str = ADMIN_TOKEN,
        peer: Peer = Peer(),
        **headers: str,
    ) -> Answer:
        """Sends a request; header names are written with underscores."""
        path, _, query = target.partition("?")
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            lines.setdefault("authorization", f"Bearer {token}")
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            lines.setdefault("content-type", "application/json")
        request = Request(
            method, unquote(path), parse_qs(query, keep_blank_values=True), lines, body, peer, target
        )
        return await self.api(request)

    async def ask(self, method: str, target: str, body: Any = b"", **more: Any) -> Answered:
        """Sends a request that is answered at once."""
        answer = await self.send(method, target, body, **more)
        assert isinstance(answer, Response), answer
        return Answered(answer)

    async def get(self, target: str, **more: Any) -> Answered:
        return await self.ask("GET", target, **more)

    async def post(self, target: str, body: Any, **more: Any) -> Answered:
        return await self.ask("POST", target, body, **more)

    async def stream(self, target: str, **more: Any) -> Stream:
        answer = await self.send("GET", target, **more)
        assert isinstance(answer, Stream), answer
        return answer

    async def made(self, target: str, body: Manifest) -> Manifest:
        """Creates something and returns it; fails when that is refused."""
        answered = await self.post(target, body)
        assert answered.code == 201, answered.body
        created: Manifest = answered.json
        return created


class _Lines:
    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def write(self, line: bytes, /) -> None:
        self._lines.append(line)

"""An API server on a loopback port, in its own thread, with a kubeconfig for it."""

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from volcano.apiserver.admission.chain import RESOURCE_PLUGINS
from volcano.apiserver.authn.access_control import AccessOptions
from volcano.apiserver.authn.tokens import new_signing_key
from volcano.apiserver.interfaces import LogSource, StreamSource
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.server import ApiServer, ServerOptions, controlled_registry
from volcano.apiserver.storage.store import Store
from volcano.base.clock import SystemClock
from volcano.base.http.server import Server
from volcano.base.http.tls import create_authority, issue, server_context

TOKEN = "the-admin-token"


class Serving:
    """A running server: `url`, `kubeconfig`, and `run` to await something on its event loop."""

    def __init__(
        self, folder: Path, logs: LogSource | None = None, streams: StreamSource | None = None
    ) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._streams = streams
        self._logs = logs
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"
        if self._failure is not None:
            raise self._failure

    def run(self, work: Callable[[ApiServer], Awaitable[Any]]) -> Any:
        """Awaits `work(api)` on the server's loop."""

        async def wrapped() -> Any:
            return await work(self.api)

        return asyncio.run_coroutine_threadsafe(wrapped(), self._loop).result(30)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # raised again in the thread that waits for the start
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        authority = create_authority("test", now=time.time())
        hosts = ["127.0.0.1", "localhost"]
        credential = issue(authority, "kube-apiserver", now=time.time(), hosts=hosts, server=True)
        controlled = controlled_registry(
            Store(),
            KindTable(built_in_kinds()),
            clock=SystemClock(),
            random=Random(),
            new_uid=_new_id,
            access=AccessOptions(
                admin_token=TOKEN,
                signing_key=new_signing_key(),
                new_id=_new_id,
                authority=authority.cert_pem,
            ),
            disabled_plugins=RESOURCE_PLUGINS,
        )
        options = ServerOptions(new_id=_new_id, random=Random(), logs=self._logs, streams=self._streams)
        self.api = ApiServer(controlled, options)
        await self.api.start()
        server = Server(self.api, tls=server_context(credential, client_authority=authority.cert_pem))
        await server.start()
        self.url = server.url
        self.authority = authority
        self.kubeconfig.write_text(kubeconfig(server.url, authority.cert_pem, TOKEN))
        self._ready.set()
        await self._stop.wait()
        await server.stop(grace=0.2)
        await self.api.close()


def _new_id() -> str:
    return str(uuid.uuid4())


def kubeconfig(url: str, authority: bytes, token: str) -> str:
    """A kubeconfig for one user of one cluster."""
    import base64

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": url,
                        "certificate-authority-data": base64.b64encode(authority).decode(),
                    },
                }
            ],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
    )

"""An HTTP server on a loopback port that answers as the test says, in its own thread."""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

Answer = tuple[int, bytes]


class Received(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class LoopbackServer:
    """Use as a context manager; `requests` are all received so far."""

    def __init__(self, answer: Callable[[Received], Answer], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                length = int(handler.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in handler.headers.items()}
                received = Received(handler.command, handler.path, headers, handler.rfile.read(length))
                self.requests.append(received)
                status, body = answer(received)
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> "LoopbackServer":
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

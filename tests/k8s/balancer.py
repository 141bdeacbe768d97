"""A TCP load balancer on loopback, in the place of a Service with several endpoints."""

import contextlib
import socket
import threading
from collections.abc import Sequence


class Balancer:
    """Forwards connections to `ports` round-robin, skipping ports that refuse them."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._accepted = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._accepted += 1
            threading.Thread(target=self._serve, args=(client, self._accepted), daemon=True).start()

    def _serve(self, client: socket.socket, first: int) -> None:
        with client:
            for number in range(len(self._ports)):
                port = self._ports[(first + number) % len(self._ports)]
                try:
                    server = socket.create_connection(("127.0.0.1", port), timeout=1.0)
                except OSError:
                    continue
                with server:
                    server.settimeout(None)
                    replies = threading.Thread(target=_copy, args=(server, client), daemon=True)
                    replies.start()
                    _copy(client, server)
                    replies.join()
                return

    def stop(self) -> None:
        self._socket.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

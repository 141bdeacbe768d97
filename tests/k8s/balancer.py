"""What a Service does for replicas: connections go to whichever of them is there."""

import contextlib
import socket
import threading
from collections.abc import Sequence


class Balancer:
    """Listens on a port and passes connections on, to each of `ports` in turn, or to the next that takes them."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turn = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._turn += 1
            threading.Thread(target=self._serve, args=(client, self._turn), daemon=True).start()

    def _serve(self, client: socket.socket, turn: int) -> None:
        with client:
            for number in range(len(self._ports)):
                port = self._ports[(turn + number) % len(self._ports)]
                try:
                    server = socket.create_connection(("127.0.0.1", port), timeout=1.0)
                except OSError:
                    continue
                with server:
                    server.settimeout(None)
                    back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                    back.start()
                    _pump(client, server)
                    back.join()
                return

    def stop(self) -> None:
        self._socket.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

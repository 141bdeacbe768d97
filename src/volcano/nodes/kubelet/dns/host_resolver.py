"""Forwards questions about names outside the cluster to the name servers of this host."""

import asyncio
from pathlib import Path

RESOLV_CONF = Path("/etc/resolv.conf")
PORT = 53
TIMEOUT = 2.0  # seconds for each name server
ROUNDS = 2
MAX_SERVERS = 3


class HostResolver:
    """Asks the servers in resolv.conf, in order; the file is read for each question, as it changes with networks."""

    def __init__(self, path: Path = RESOLV_CONF, port: int = PORT, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._port = port
        self._timeout = timeout

    async def ask(self, question: bytes, *, datagram: bool) -> bytes | None:
        """The reply of the first server that answers; None when none does."""
        for server in self._servers() * ROUNDS:
            try:
                async with asyncio.timeout(self._timeout):
                    ask = self._ask_by_datagram if datagram else self._ask_by_stream
                    return await ask(server, question)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                continue
        return None

    def _servers(self) -> list[str]:
        try:
            lines = self._path.read_text().splitlines()
        except OSError:
            return []
        words = [line.split("#")[0].split() for line in lines]
        return [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"][:MAX_SERVERS]

    async def _ask_by_datagram(self, server: str, question: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        transport, waiting = await loop.create_datagram_endpoint(
            lambda: _Exchange(question[:2]), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(question)
            return await waiting.reply
        finally:
            transport.close()

    async def _ask_by_stream(self, server: str, question: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(len(question).to_bytes(2) + question)
            length = int.from_bytes(await reader.readexactly(2))
            return await reader.readexactly(length)
        finally:
            writer.close()


class _Exchange(asyncio.DatagramProtocol):
    """Waits for the reply with the question's identity."""

    def __init__(self, identity: bytes) -> None:
        self._identity = identity
        self.reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._identity and not self.reply.done():
            self.reply.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(exc)

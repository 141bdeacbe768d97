"""The name server: its messages, and itself on real sockets."""

import asyncio
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.kubelet.dns.test_names import DOMAIN, TASK, World, endpoint
from volcano.kube.api.kinds import SERVICE
from volcano.nodes.kubelet.dns.host_resolver import HostResolver
from volcano.nodes.kubelet.dns.message import DEFAULT_UDP_SIZE, MAX_UDP_SIZE, encoded_name
from volcano.nodes.kubelet.dns.records import RecordType
from volcano.nodes.kubelet.dns.server import MAX_CONNECTIONS, DnsServer

WORKER = f"worker-0.train.default.{DOMAIN}"
SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = 2, 3, 4, 5


def asked(
    name: str, kind: int = RecordType.A, *, flags: int = 0x0100, extra: bytes = b"", more: int = 0
) -> bytes:
    header = struct.pack("!6H", 0xBEEF, flags, 1, 0, 0, more)
    return header + encoded_name(name) + struct.pack("!2H", kind, 1) + extra


def edns(size: int, version: int = 0) -> bytes:
    return b"\0" + struct.pack("!HHIH", RecordType.OPT, size, version << 16, 0)


def reply_of(server: DnsServer, message: bytes, *, datagram: bool) -> bytes | None:
    """The reply to a message; None when it is malformed."""
    replies: list[bytes] = []
    known = server.answer(message, replies.append, datagram=datagram)
    assert known == bool(replies)
    return replies[0] if replies else None


class Reply:
    """A reply taken apart with nothing but the RFC: an independent reading of what was written."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.id, self.flags, questions, *counts = struct.unpack_from("!6H", message)
        assert questions == 1
        self.name, at = self._name(12)
        at += 4
        self.sections: list[list[tuple[str, int, int, bytes]]] = []
        for count in counts:
            section = []
            for _ in range(count):
                name, at = self._name(at)
                kind, _, ttl, length = struct.unpack_from("!HHIH", message, at)
                section.append((name, kind, ttl, message[at + 10 : at + 10 + length]))
                at += 10 + length
            self.sections.append(section)
        assert at == len(message)

    def _name(self, at: int) -> tuple[str, int]:
        labels, end = [], 0
        while (length := self.message[at]) != 0:
            if length & 0xC0 == 0xC0:
                end = end or at + 2
                at = struct.unpack_from("!H", self.message, at)[0] & 0x3FFF
                continue
            labels.append(self.message[at + 1 : at + 1 + length].decode("latin-1"))
            at += 1 + length
        return ".".join(labels), end or at + 1

    @property
    def code(self) -> int:
        return int(self.flags & 0xF)

    @property
    def truncated(self) -> bool:
        return bool(self.flags & 0x0200)

    @property
    def addresses(self) -> list[str]:
        return [socket.inet_ntoa(data) for _, kind, _, data in self.sections[0] if kind == RecordType.A]


def world() -> World:
    made = World()
    made.pod("train-worker-0", "10.88.0.5", labels=TASK)
    made.put(SERVICE, "web", spec={"clusterIP": "None"})
    made.slice(
        "web", *(endpoint(f"10.88.1.{number}") for number in range(100)), ports=[{"name": "p", "port": 80}]
    )
    return made


def offline() -> DnsServer:
    """A server without sockets, to ask directly."""
    with socket.socket() as closed:
        return DnsServer(world().names, closed)


def reply(message: bytes, *, datagram: bool = True) -> Reply:
    answer = reply_of(offline(), message, datagram=datagram)
    assert answer is not None
    return Reply(answer)


def test_an_address_is_answered_with_nothing_to_remember() -> None:
    answer = reply(asked(WORKER))
    assert (answer.id, answer.code, answer.addresses) == (0xBEEF, 0, ["10.88.0.5"])
    assert answer.flags & 0x8580 == 0x8580  # a reply, certain, recursion wanted and offered
    assert answer.sections[0][0][:3] == (WORKER, RecordType.A, 0)


def test_the_question_is_repeated_letter_by_letter() -> None:
    assert (
        reply(asked("WoRKer-0.TRAIN.default.svc.cluster.local")).name
        == "WoRKer-0.TRAIN.default.svc.cluster.local"
    )


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        pytest.param(WORKER, RecordType.AAAA, 0, id="of another type"),
        pytest.param(WORKER.replace("-0", "-9"), RecordType.A, NXDOMAIN, id="not there yet"),
    ],
)
def test_that_there_is_nothing_must_not_be_remembered(name: str, kind: int, code: int) -> None:
    answer = reply(asked(name, kind))
    assert (answer.code, answer.sections[0]) == (code, [])
    ((owner, soa, ttl, data),) = answer.sections[1]
    assert (owner, soa, ttl, data[-4:]) == ("cluster.local", RecordType.SOA, 0, b"\0\0\0\0")


def test_names_outside_the_cluster_do_not_exist() -> None:
    answer = reply(asked("example.org"))
    assert (answer.code, answer.sections) == (NXDOMAIN, [[], [], []])
    assert not answer.flags & 0x0400  # not that we were certain


def test_long_answers_are_cut_off_in_datagrams_and_whole_on_connections() -> None:
    name = f"web.default.{DOMAIN}"
    short = reply(asked(name))
    assert (short.truncated, short.addresses, len(short.message) <= DEFAULT_UDP_SIZE) == (True, [], True)
    longer = reply(asked(name, extra=edns(65000), more=1))
    assert (longer.truncated, len(longer.message) <= MAX_UDP_SIZE) == (True, True)
    whole = reply(asked(name), datagram=False)
    assert not whole.truncated
    assert len(set(whole.addresses)) == 100


def test_additional_addresses_are_left_out_before_answers_are() -> None:
    made = World()
    made.put(SERVICE, "web", spec={"clusterIP": "None"})
    made.slice(
        "web", *(endpoint(f"10.88.1.{number}") for number in range(6)), ports=[{"name": "p", "port": 80}]
    )
    with socket.socket() as closed:
        answered = reply_of(
            DnsServer(made.names, closed),
            asked(f"_p._tcp.web.default.{DOMAIN}", RecordType.SRV),
            datagram=True,
        )
    answer = Reply(answered or b"")
    assert (len(answer.sections[0]), answer.sections[2], answer.truncated) == (6, [], False)


def test_addresses_are_rotated() -> None:
    server = offline()
    firsts = set()
    for _ in range(100):
        answered = reply_of(server, asked(f"web.default.{DOMAIN}"), datagram=False)
        firsts.add(Reply(answered or b"").addresses[0])
    assert len(firsts) == 100


def test_edns_is_supported_and_later_versions_are_rejected() -> None:
    answer = reply(asked(WORKER, extra=edns(4096), more=1))
    ((_, kind, _, _),) = answer.sections[2]
    assert (kind, answer.addresses) == (RecordType.OPT, ["10.88.0.5"])
    ((_, _, extended, _),) = reply(asked(WORKER, extra=edns(4096, version=1), more=1)).sections[2]
    assert extended >> 24 == 1  # BADVERS


def test_other_operations_and_classes_are_rejected() -> None:
    assert reply(asked(WORKER, flags=0x2800)).code == NOTIMP
    chaos = struct.pack("!6H", 1, 0, 1, 0, 0, 0) + encoded_name("version.bind") + struct.pack("!2H", 16, 3)
    assert reply(chaos).code == REFUSED


def test_an_address_that_is_none_costs_only_its_own_answer() -> None:
    made = world()
    made.pod("train-worker-1", "not an address", labels={**TASK, "volcano.sh/task-index": "1"})
    with socket.socket() as closed:
        server = DnsServer(made.names, closed)
    assert Reply(reply_of(server, asked(WORKER.replace("-0", "-1")), datagram=True) or b"").code == SERVFAIL
    assert Reply(reply_of(server, asked(WORKER), datagram=True) or b"").code == 0


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 11,
        asked(WORKER)[:-1],
        asked(WORKER, flags=0x8100),  # a reply
        struct.pack("!6H", 1, 0, 2, 0, 0, 0) + encoded_name("a") + b"\0\1\0\1",
        struct.pack("!6H", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",  # a name that points to itself
        struct.pack("!6H", 1, 0, 1, 0, 0, 0) + b"\x3f" + b"a" * 10,
        struct.pack("!6H", 1, 0, 1, 0, 0, 0) + (b"\x3f" + b"a" * 63) * 5 + b"\0\0\1\0\1",
        asked(WORKER, extra=edns(512)[:-1], more=1),
        asked(WORKER, extra=b"\x80", more=1),
    ],
)
def test_malformed_messages_are_ignored(message: bytes) -> None:
    assert reply_of(offline(), message, datagram=True) is None


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_break_it(noise: bytes, headed: bool) -> None:
    server = SERVER
    message = struct.pack("!6H", 7, 0, 1, 0, 0, 1) + noise if headed else noise
    answer = reply_of(server, message, datagram=True)
    assert answer is None or (answer[:2] == message[:2] and len(answer) <= MAX_UDP_SIZE)


@given(st.data())
def test_no_change_to_a_question_breaks_it(data: st.DataObject) -> None:
    message = bytearray(asked(WORKER, extra=edns(1232), more=1))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    answer = reply_of(SERVER, bytes(message), datagram=True)
    if answer is not None:
        Reply(answer)


SERVER = offline()


def bound(host: str, port: int, attempts: int = 20) -> tuple[socket.socket, socket.socket]:
    """A socket of each kind at one port; a port that is free for UDP may be in use for TCP."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp = socket.socket()
    try:
        udp.bind((host, port))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind(udp.getsockname())
    except OSError:
        udp.close()
        tcp.close()
        if port or not attempts:
            raise
        return bound(host, port, attempts - 1)
    tcp.listen()
    return udp, tcp


@asynccontextmanager
async def serving(names: World, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[str, int]]:
    udp, tcp = bound(host, port)
    server = DnsServer(names.names, udp, tcp)
    address = udp.getsockname()
    await server.start()
    try:
        yield address
    finally:
        await server.stop()


async def test_datagrams_are_answered_also_after_a_malformed_one() -> None:
    async with serving(world()) as address:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, address)
            await loop.sock_sendall(client, b"nonsense")
            await loop.sock_sendall(client, asked(WORKER))
            answer = Reply(await asyncio.wait_for(loop.sock_recv(client, 4096), 5))
            assert answer.addresses == ["10.88.0.5"]


async def test_a_connection_may_ask_in_pieces_and_more_than_once() -> None:
    async with serving(world()) as address:
        reader, writer = await asyncio.open_connection(*address)
        question = asked(f"web.default.{DOMAIN}")
        framed = len(question).to_bytes(2) + question
        for slice_ in (framed[:1], framed[1:9], framed[9:] + framed):
            writer.write(slice_)
            await writer.drain()
            await asyncio.sleep(0)
        for _ in range(2):
            length = int.from_bytes(await reader.readexactly(2))
            assert len(Reply(await reader.readexactly(length)).addresses) == 100
        writer.write(b"\0\3bad")
        assert await reader.read() == b""  # it hangs up on nonsense
        writer.close()
        await writer.wait_closed()


async def test_connections_are_limited_and_the_rest_is_served_still() -> None:
    async with serving(world()) as address:
        held = [await asyncio.open_connection(*address) for _ in range(MAX_CONNECTIONS)]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(len(asked(WORKER)).to_bytes(2) + asked(WORKER))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(2)
        for _, each in [*held, (reader, writer)]:
            each.close()
        await asyncio.gather(*(each.wait_closed() for _, each in held), return_exceptions=True)


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="needs a mount namespace and port 53"
)
async def test_the_c_library_finds_a_worker_by_the_name_the_guides_use(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text(
        f"search default.{DOMAIN} {DOMAIN} cluster.local\nnameserver 127.88.53.53\noptions ndots:5\n"
    )
    look = (
        f"mount --bind {conf} /etc/resolv.conf && getent ahosts worker-0.train && getent ahosts web | wc -l"
    )
    try:
        async with serving(world(), "127.88.53.53", 53):
            done = await asyncio.to_thread(
                subprocess.run,
                ["unshare", "-m", "sh", "-c", look],
                capture_output=True,
                text=True,
                timeout=20,
            )
    except OSError as error:
        pytest.skip(f"port 53 cannot be had: {error}")
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.startswith("10.88.0.5"), done.stderr
    assert done.stdout.split()[-1] == "300"  # every address three times: stream, datagram, raw


async def test_names_outside_the_cluster_are_those_of_the_hosts_name_servers(tmp_path: Path) -> None:
    """Over UDP and TCP; the first server does not answer. Cluster names are never forwarded."""
    received: list[bytes] = []

    def answer(question: bytes) -> bytes:
        received.append(question)
        return question[:2] + b"\x81\x80" + question[4:] + b"answer"

    class Upstream(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.DatagramTransport, transport)

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            self.transport.sendto(answer(data), addr)

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
        reply = answer(question)
        writer.write(len(reply).to_bytes(2) + reply)
        writer.close()

    loop = asyncio.get_running_loop()
    upstream, _ = await loop.create_datagram_endpoint(Upstream, local_addr=("127.0.0.2", 0))
    port = upstream.get_extra_info("sockname")[1]
    listener = await asyncio.start_server(stream, "127.0.0.2", port)
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("# comment\nnameserver 127.0.0.3\nnameserver 127.0.0.2 # the second\n")
    world = World()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        server = DnsServer(world.names, closed, resolver=HostResolver(resolv_conf, port, timeout=1.0))
        for datagram in (True, False):
            replies: asyncio.Queue[bytes] = asyncio.Queue()
            for name in ("example.com", "7.2.0.192.in-addr.arpa"):
                assert server.answer(asked(name), replies.put_nowait, datagram=datagram)
                assert (await asyncio.wait_for(replies.get(), 10)).endswith(b"answer")
            for name in (f"missing.default.{DOMAIN}", "7.0.88.10.in-addr.arpa"):
                assert server.answer(asked(name), replies.put_nowait, datagram=datagram)
                assert Reply(replies.get_nowait()).code == NXDOMAIN
        assert len(received) == 4
        listener.close()
        upstream.close()
        resolv_conf.write_text("")
        assert server.answer(asked("example.com"), replies.put_nowait, datagram=True)
        assert Reply(await asyncio.wait_for(replies.get(), 10)).code == SERVFAIL

"""Sockets in another network namespace: opened by a thread, or by a helper that sends them back."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from volcano.nodes.runtimes.engine.network import open_in_thread, open_with_podman

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter a network")

# Like `podman unshare`, but without another user namespace.
UNSHARE = """#!/bin/sh
test "$1" = unshare || exit 1
shift
exec "$@"
"""


def by_thread(directory: Path) -> Callable[[int, int], Awaitable[socket.socket]]:
    return open_in_thread


def by_helper(directory: Path) -> Callable[[int, int], Awaitable[socket.socket]]:
    program = directory / "podman"
    program.write_text(UNSHARE)
    program.chmod(0o755)
    return lambda pid, family: open_with_podman(str(program), pid, family)


@pytest.mark.parametrize("way", [by_thread, by_helper])
async def test_a_socket_made_there_connects_from_here(
    tmp_path: Path, way: Callable[[Path], Callable[[int, int], Awaitable[socket.socket]]]
) -> None:
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        await way(tmp_path)(os.getpid(), socket.AF_INET) as made,
    ):
        made.setblocking(False)
        await loop.sock_connect(made, server.getsockname())
        server.setblocking(False)
        accepted, _ = await loop.sock_accept(server)
        with accepted:
            await loop.sock_sendall(made, b"ping")
            assert await loop.sock_recv(accepted, 10) == b"ping"


@pytest.mark.parametrize("way", [by_thread, by_helper])
async def test_a_process_that_exited_has_no_network(
    tmp_path: Path, way: Callable[[Path], Callable[[int, int], Awaitable[socket.socket]]]
) -> None:
    with pytest.raises(OSError, match=r"4194305|No such file"):
        await way(tmp_path)(4194305, socket.AF_INET)


async def test_this_process_stays_in_its_own_network() -> None:
    before = os.readlink("/proc/self/ns/net")
    (await open_in_thread(os.getpid(), socket.AF_INET)).close()
    assert os.readlink("/proc/self/ns/net") == before

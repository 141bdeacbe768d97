"""Sockets in a pod's network, made by entering it: what listens on a pod's loopback is reached, too.

Root enters with a thread of its own. Without root only the engine's own user namespace may, so that podman starts
`python -m volcano.nodes.runtimes.engine.network <pid> <family>` in it, which hands the socket over.
"""

import array
import asyncio
import os
import socket
import sys
import threading

from volcano.nodes.shim.isolation import syscalls

_MODULE = "volcano.nodes.runtimes.engine.network"


def open_within(pid: int, family: int) -> socket.socket:
    """A socket in the network of a process. Enters it for good: for a thread or process that ends right after."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        syscalls.setns(network, syscalls.CLONE_NEWNET)
    finally:
        os.close(network)
    return socket.socket(family, socket.SOCK_STREAM)


async def open_in_thread(pid: int, family: int) -> socket.socket:
    """The same from an event loop. OSError when this process may not."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[socket.socket] = loop.create_future()

    def give(result: socket.socket | None, error: OSError | None) -> None:
        if made.done():
            if result is not None:
                result.close()
        elif error is not None:
            made.set_exception(error)
        elif result is not None:
            made.set_result(result)

    def work() -> None:
        try:
            result, error = open_within(pid, family), None
        except OSError as failure:
            result, error = None, failure
        loop.call_soon_threadsafe(give, result, error)

    threading.Thread(target=work, name="pod-network", daemon=True).start()
    return await made


async def open_with_podman(program: str, pid: int, family: int) -> socket.socket:
    """The same through rootless podman's user namespace."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = await asyncio.create_subprocess_exec(
                *(program, "unshare", sys.executable, "-P", "-m", _MODULE, str(pid), str(int(family))),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(10.0):
                await helper.wait()
        except (TimeoutError, asyncio.CancelledError):
            helper.kill()
            await helper.wait()
            raise
        ours.setblocking(False)
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except BlockingIOError:
            descriptors = []
    if not descriptors:
        raise OSError(f"the network of process {pid} cannot be entered")
    return socket.socket(fileno=descriptors[0])


def main(pid: str, family: str) -> None:
    with open_within(int(pid), int(family)) as made, socket.socket(fileno=os.dup(0)) as back:
        descriptors = array.array("i", [made.fileno()])
        back.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


if __name__ == "__main__":
    main(*sys.argv[1:])

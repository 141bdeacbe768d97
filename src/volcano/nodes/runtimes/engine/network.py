"""Opens sockets in a pod's network namespace, which also reach the pod's loopback interface.

Root joins the namespace in a thread. Without root, podman starts `python -m
volcano.nodes.runtimes.engine.network <pid> <family>` in its user namespace, which sends the socket back.
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
    """Joins the network of a process for good and opens a socket: for a thread or process that ends right after."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        syscalls.setns(network, syscalls.CLONE_NEWNET)
    finally:
        os.close(network)
    return socket.socket(family, socket.SOCK_STREAM)


async def open_in_thread(pid: int, family: int) -> socket.socket:
    """Opens the socket in a thread. OSError when this process lacks the privilege."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[socket.socket] = loop.create_future()

    def resolve(result: socket.socket | None, error: OSError | None) -> None:
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
        loop.call_soon_threadsafe(resolve, result, error)

    threading.Thread(target=work, name="pod-network", daemon=True).start()
    return await made


async def open_with_podman(program: str, pid: int, family: int) -> socket.socket:
    """Opens the socket through rootless podman's user namespace."""
    own_end, helper_end = socket.socketpair()
    with own_end:
        with helper_end:
            helper = await asyncio.create_subprocess_exec(
                *(program, "unshare", sys.executable, "-P", "-m", _MODULE, str(pid), str(int(family))),
                stdin=helper_end.fileno(),
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
        own_end.setblocking(False)
        try:
            _, descriptors, _, _ = socket.recv_fds(own_end, 1, 1)
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

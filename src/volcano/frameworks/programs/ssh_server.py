"""A small ssh server for pods, where the host has none: `sshd [-D] [-p PORT]`. Needs the package asyncssh.

It runs commands as the user who started it, with the environment of the container, and accepts the keys in
~/.ssh/authorized_keys, which the job plugin `ssh` puts there. Without -D it goes on in the background.

In the runtime plain, where VOLCANO_ROOT is the root of the container, pods have neither names nor ports of their own:
the server listens on a port of the loopback address that follows from the name of the pod, and `ssh_client` connects
to it.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

FIRST_PORT, PORTS = 20000, 10000


def main() -> None:
    parser = argparse.ArgumentParser(prog="sshd", add_help=False)
    parser.add_argument("-D", action="store_true", dest="stay")
    parser.add_argument("-p", type=int, default=22, dest="port")
    arguments, _ = parser.parse_known_args()  # other options of sshd do not matter here
    if not arguments.stay and os.fork() > 0:
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    plain = os.environ.get("VOLCANO_ROOT")
    address, port = ("127.0.0.1", port_of(os.environ["HOSTNAME"])) if plain else ("", arguments.port)
    home = Path(plain, "root") if plain else Path(os.environ.get("HOME", "/root"))
    try:
        asyncio.run(serve(address, port, home))
    except OSError as error:
        sys.exit(f"sshd: cannot listen on port {port}: {error.strerror}")


def port_of(host: str) -> int:
    """The port of a pod's ssh server in the runtime plain. Only one job of a name can run at a time there."""
    return FIRST_PORT + zlib.crc32(host.partition(".")[0].encode()) % PORTS


async def serve(address: str, port: int, home: Path) -> None:
    """Serves until the process is ended."""
    asyncssh: Any = import_module("asyncssh")  # of the framework's environment, not of volcano's
    await asyncssh.listen(
        address,
        port,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        authorized_client_keys=str(home / ".ssh" / "authorized_keys"),
        process_factory=run_command,
        encoding=None,
    )
    await asyncio.Event().wait()


async def run_command(session: Any) -> None:
    """Runs the command of a session with the shell; it is ended with the session."""
    child = subprocess.Popen(
        ["/bin/sh", "-c", session.command or "exec /bin/sh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        await session.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        code = await asyncio.to_thread(child.wait)
        await session.stdout.drain()
        session.exit(code if code >= 0 else 128 - code)
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)


if __name__ == "__main__":
    main()

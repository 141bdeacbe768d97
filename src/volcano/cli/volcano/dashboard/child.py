"""The dashboard of `volcano up`: a process of its own, started when a browser connects for the first time.

The cluster holds the listening socket from its start. A dashboard that is not opened costs nothing, and a busy one
does not delay the cluster.
"""

import asyncio
import json
import socket
import sys
import time
from pathlib import Path

from volcano.base.http.tls_context import write_private
from volcano.base.log import Log
from volcano.cli.errors import CommandError
from volcano.cli.volcano.dashboard.listener import listen, url_of
from volcano.dashboard.links import link, new_key, new_token
from volcano.embedded.state import Running

log = Log("dashboard")

STATE_FILE = "dashboard.json"
KEY_FILE = "dashboard.key"
STOPPED_WITHIN = 5.0
RESTART_AFTER = 1.0


class DashboardProcess:
    """Starts the dashboard's process on the first connection, and again if it ends."""

    def __init__(self, directory: Path, kubeconfig: str, port: int | None) -> None:
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._listener = listen("127.0.0.1", port)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.url = url_of(self._listener)

    def start(self) -> None:
        """Writes what `volcano dashboard --link` needs, and waits for a connection."""
        write_private(self._directory / KEY_FILE, new_key())
        write_private(self._directory / STATE_FILE, json.dumps({"url": self.url}).encode())
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends the process and closes the socket."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._listener.close()
        for name in (STATE_FILE, KEY_FILE):
            (self._directory / name).unlink(missing_ok=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOPPED_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _run(self) -> None:
        while True:
            await _readable(self._listener)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "volcano.cmd.volcano", "dashboard",
                "--kubeconfig", self._kubeconfig,
                "--listen-fd", str(self._listener.fileno()),
                "--key-file", str(self._directory / KEY_FILE),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(self._listener.fileno(),),
                start_new_session=True,  # Ctrl-C in the terminal is for the cluster, which stops this process
            )  # fmt: skip
            code = await self._process.wait()
            log.warning("the dashboard process ended, the next connection starts it again", code=code)
            await asyncio.sleep(RESTART_AFTER)


async def _readable(listener: socket.socket) -> None:
    """Returns when a connection waits to be accepted."""
    loop = asyncio.get_running_loop()
    waits = asyncio.Event()
    loop.add_reader(listener.fileno(), waits.set)
    try:
        await waits.wait()
    finally:
        loop.remove_reader(listener.fileno())


def dashboard_url(running: Running) -> str:
    """Address of the dashboard of a running cluster; "" if it has none."""
    try:
        return str(json.loads((Path(running.directory) / STATE_FILE).read_bytes())["url"])
    except FileNotFoundError:
        return ""


def link_to(running: Running) -> str:
    """A one-time link to the dashboard of a running cluster."""
    url = dashboard_url(running)
    if not url:
        raise CommandError(
            f"cluster {running.name!r} serves no dashboard: it was started with --no-dashboard, or the dashboard is "
            "not installed; `volcano dashboard --kubeconfig FILE` serves one"
        )
    key = (Path(running.directory) / KEY_FILE).read_bytes()
    return link(url, new_token(key, time.time()))

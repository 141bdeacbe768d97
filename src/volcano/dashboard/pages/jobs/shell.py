"""The tab of the shell: a command with a terminal in a container, with the viewer's permissions."""

import asyncio
import codecs
import shlex

from nicegui import background_tasks, events, ui

from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import at, items
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.exec import Terminal, terminal

COMMAND = "sh"
LARGEST = 64 * 1024  # bytes that are sent to the browser at a time
WAITING = 8  # pieces of output that wait for the browser; then the command waits
ACKNOWLEDGED = 30.0  # seconds
OPTIONS = {
    "convertEol": False,
    "scrollback": 5000,
    "fontSize": 13,
    "screenReaderMode": True,
    "cursorBlink": True,
}


async def build(job: OpenJob) -> None:
    _Shell(job)


class _Shell:
    """One terminal; it ends with the page."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._terminal: Terminal | None = None
        self._task: asyncio.Task[None] | None = None
        with ui.row().classes("w-full items-center gap-3"):
            self._pods = ui.select([], label="Pod", with_input=True, on_change=self._offer_containers)
            self._containers = ui.select([], label="Container")
            self._command = ui.input("Command", value=COMMAND)
            for element, width in ((self._pods, "w-64"), (self._containers, "w-40"), (self._command, "w-40")):
                element.props("dense outlined").classes(width)
            self._button = ui.button("Connect", icon="terminal", on_click=self._toggle).props("outline")
        self._note = (
            ui.label("Only pods that run are listed.").classes("volcano-muted").props('role="status"')
        )
        self._screen = ui.xterm(OPTIONS, on_data=self._on_data, on_resize=self._on_resize)
        self._screen.classes("w-full").style(
            "height: 55vh; background: #000; padding: .25rem; border-radius: 6px"
        )
        self._screen.props('role="application" aria-label="Terminal"')
        ui.context.client.on_delete(self._end)
        job.on_update("shell", self._update)

    def _update(self) -> None:
        running = [key_of(pod).name for pod in self._job.view.pods if at(pod, "status", "phase") == "Running"]
        if self._pods.options != running:
            wanted = self._pods.value or self._job.pod
            value = wanted if wanted in running else (running[0] if running else None)
            self._pods.set_options(running, value=value)
        elif self._task is None and self._job.pod in running and self._pods.value != self._job.pod:
            self._pods.set_value(self._job.pod)
        self._offer_containers()

    def _offer_containers(self) -> None:
        pod = self._job.find_pod(str(self._pods.value or ""))
        names = _running_containers(pod) if pod is not None else []
        if self._containers.options != names:
            self._containers.set_options(names, value=names[0] if names else None)
        self._button.set_enabled(bool(names) or self._task is not None)

    # -- the connection

    def _toggle(self) -> None:
        if self._task is not None:
            self._end()
            return
        try:
            command = shlex.split(str(self._command.value or COMMAND))
        except ValueError as error:
            self._note.set_text(f"The command cannot be read: {error}")
            return
        pod = Key(self._job.key.namespace, str(self._pods.value))
        self._screen.run_terminal_method("reset")
        self._button.set_text("Disconnect")
        self._task = background_tasks.create(
            self._run(pod, str(self._containers.value), command or [COMMAND]), name="shell"
        )

    async def _run(self, pod: Key, container: str, command: list[str]) -> None:
        connection = self._job.context.viewer.connection
        self._note.set_text(f"Connecting to {container} of {pod.name} ...")
        try:
            async with terminal(connection.client, pod, container, command) as opened:
                self._terminal = opened
                await self._fit(opened)
                self._note.set_text(f"Connected to {container} of {pod.name}.")
                await self._show(opened)
                self._note.set_text(f"The command has ended{f': {opened.end}' if opened.end else '.'}")
        except ApiError as error:
            self._note.set_text(error.message)
        except (ConnectionError, TimeoutError):
            self._note.set_text("The connection was lost.")
        finally:
            self._terminal = self._task = None
            self._button.set_text("Connect")

    async def _fit(self, opened: Terminal) -> None:
        await self._screen.run_method("fit", timeout=ACKNOWLEDGED)
        columns = await self._screen.run_method("getColumns", timeout=ACKNOWLEDGED)
        rows = await self._screen.run_method("getRows", timeout=ACKNOWLEDGED)
        self._screen.run_terminal_method("focus")
        await opened.resize(int(columns), int(rows))

    async def _show(self, opened: Terminal) -> None:
        """Output to the browser. Each piece is acknowledged, so that endless output waits in the container."""
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)

        async def receive() -> None:
            async for data in opened:
                await pieces.put(data)
            await pieces.put(None)

        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        receiving = asyncio.create_task(receive())
        try:
            while (piece := await pieces.get()) is not None:
                data = bytearray(piece)
                while len(data) < LARGEST and not pieces.empty():
                    more = pieces.get_nowait()
                    if more is None:
                        await pieces.put(None)
                        break
                    data += more
                await self._screen.run_method("write", decoder.decode(bytes(data)), timeout=ACKNOWLEDGED)
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _on_data(self, event: events.XtermDataEventArguments) -> None:
        if self._terminal is not None:
            try:
                await self._terminal.send(event.data.encode())
            except ConnectionError:
                self._end()

    async def _on_resize(self, event: events.XtermResizeEventArguments) -> None:
        if self._terminal is not None:
            try:
                await self._terminal.resize(event.cols, event.rows)
            except ConnectionError:
                self._end()


def _running_containers(pod: Manifest) -> list[str]:
    statuses = items(pod, "status", "containerStatuses")
    return [str(each.get("name")) for each in statuses if at(each, "state", "running") is not None]

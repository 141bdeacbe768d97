"""What a viewer can do with a queue: open it, close it, change its weight."""

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.kube.api.kinds import COMMAND, QUEUE
from volcano.kube.api.names import ROOT_QUEUE
from volcano.services.queues import CLOSE, COMMAND_NAMESPACE, OPEN, operate_queue, update_queue

LARGEST_WEIGHT = 2**31 - 1


class QueueActions:
    """Buttons for one queue; those that the viewer may use and that its state allows are shown."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._weight = 1
        with ui.row().classes("gap-2"):
            self._open = ui.button("Open", icon="play_arrow", on_click=self._open_queue).props(
                "outline dense"
            )
            self._close = ui.button("Close", icon="block", on_click=self._close_queue).props("outline dense")
            self._change = ui.button("Change weight", icon="tune", on_click=self._ask_weight)
            self._change.props("outline dense")
        for button in (self._open, self._close, self._change):
            button.set_visibility(False)

    async def update(self, state: str, weight: int) -> None:
        self._weight = weight
        rights = self._context.viewer.rights
        may_operate = self._name != ROOT_QUEUE and await rights.may("create", COMMAND, COMMAND_NAMESPACE)
        may_patch = self._name != ROOT_QUEUE and await rights.may("patch", QUEUE, name=self._name)
        self._open.set_visibility(may_operate and state in ("Closed", "Closing"))
        self._close.set_visibility(may_operate and state == "Open")
        self._change.set_visibility(may_patch)

    async def _open_queue(self) -> None:
        await self._operate(OPEN, f"Queue {self._name} is open.")

    async def _close_queue(self) -> None:
        question = f"Close queue {self._name}? It takes no new jobs; jobs that run go on."
        if await self._context.confirm(question, "Close queue"):
            await self._operate(CLOSE, f"Queue {self._name} is closed, or closes when its jobs have ended.")

    async def _ask_weight(self) -> None:
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Weight of queue {self._name} among its siblings")
            field = ui.number("Weight", value=self._weight, min=1, max=LARGEST_WEIGHT, precision=0)
            field.props("autofocus outlined")
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat")
                ui.button("Change weight", on_click=lambda: dialog.submit(field.value))
        answer = await dialog
        dialog.delete()
        if answer is not None and int(answer) != self._weight:
            weight = int(answer)
            client = self._context.viewer.connection.client
            change = update_queue(client, self._name, {"weight": weight})
            await self._context.act(f"Queue {self._name} has weight {weight}.", change)

    async def _operate(self, action: str, done: str) -> None:
        connection = self._context.viewer.connection
        await self._context.act(done, operate_queue(connection.client, connection.clock, self._name, action))

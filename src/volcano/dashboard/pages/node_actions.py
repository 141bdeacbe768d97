"""What a viewer can do with a node: cordon it, make it schedulable again, drain it."""

import asyncio

from nicegui import background_tasks, ui

from volcano.dashboard.context import Context
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.client.protocol import Query
from volcano.services.nodes import DrainPlan, DrainProgress, drain, plan_drain, set_unschedulable


class NodeActions:
    """Buttons for one node; those that the viewer may use are shown. A drain goes on while its page is open."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._draining: asyncio.Task[None] | None = None
        with ui.row().classes("gap-2"):
            self._cordon = _button("Cordon", "pause_circle", self._cordon_node)
            self._uncordon = _button("Uncordon", "play_circle", self._uncordon_node)
            self._drain = _button("Drain", "logout", self._drain_node)
            self._stop = _button("Stop draining", "cancel", self._stop_draining)

    def build_progress(self) -> None:
        """The place where the progress of a drain is shown."""
        self._progress = ui.label().classes("w-full volcano-card").props("role=status aria-live=polite")
        self._progress.set_visibility(False)

    async def update(self, *, cordoned: bool) -> None:
        rights = self._context.viewer.rights
        may_patch = await rights.may("patch", NODE, name=self._name)
        may_evict = may_patch and await rights.may("create", POD, subresource="eviction")
        draining = self._draining is not None
        self._cordon.set_visibility(may_patch and not cordoned)
        self._uncordon.set_visibility(may_patch and cordoned and not draining)
        self._drain.set_visibility(may_evict and not draining)
        self._stop.set_visibility(draining)

    async def _cordon_node(self) -> None:
        if await self._context.confirm(f"Cordon node {self._name}? No new pods are placed on it.", "Cordon"):
            await self._set(unschedulable=True, done=f"Node {self._name} is cordoned.")

    async def _uncordon_node(self) -> None:
        await self._set(unschedulable=False, done=f"Node {self._name} takes pods again.")

    async def _set(self, *, unschedulable: bool, done: str) -> None:
        client = self._context.viewer.connection.client
        await self._context.act(done, set_unschedulable(client, self._name, unschedulable=unschedulable))

    async def _drain_node(self) -> None:
        client = self._context.viewer.connection.client
        try:
            pods = await client.list(POD, Query(fields=f"spec.nodeName={self._name}"))
        except ApiError as error:
            ui.notify(error.message, type="negative", multi_line=True)
            return
        plan = plan_drain(pods.items)
        if not await self._context.confirm(plan.question(self._name), _confirmation(plan)):
            return
        self._draining = background_tasks.create(self._run(plan), name="drain a node")
        ui.context.client.on_delete(self._draining.cancel)
        await self.update(cordoned=True)

    async def _run(self, plan: DrainPlan) -> None:
        connection = self._context.viewer.connection
        last = DrainProgress(len(plan.evicted))
        self._show(f"Draining node {self._name}: it is being cordoned.")
        try:
            async for last in drain(connection.client, connection.clock, self._name, plan.evicted):
                self._show(
                    f"Draining node {self._name}: {last.text()} The drain stops when this page is closed; the node "
                    "stays cordoned."
                )
            result = "is drained" if last.is_complete else "is not drained"
            self._show(f"Node {self._name} {result}: {last.text()}")
        except ApiError as error:
            self._show(f"Node {self._name} cannot be drained: {error.message}")
        finally:
            self._draining = None

    async def _stop_draining(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
            self._show(
                f"The drain was stopped. Node {self._name} stays cordoned; evicted pods do not come back to it."
            )
            await self.update(cordoned=True)

    def _show(self, text: str) -> None:
        self._progress.set_text(text)
        self._progress.set_visibility(True)


def _button(text: str, icon: str, action: object) -> ui.button:
    button = ui.button(text, icon=icon, on_click=action).props("outline dense")  # type: ignore[arg-type]
    button.set_visibility(False)
    return button


def _confirmation(plan: DrainPlan) -> str:
    if not plan.evicted:
        return "Cordon"
    return "Drain and lose what was named" if plan.is_lossy else "Drain"

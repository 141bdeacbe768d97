"""One pod of a job: its state and containers, and why it has this node."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from volcano.base.clock import timestamp
from volcano.dashboard.data.nodes import node_devices
from volcano.dashboard.data.pod_devices import COLUMNS, claimed_rows, held_rows
from volcano.dashboard.pages.explained import show_pod
from volcano.dashboard.pages.jobs.computing import computed
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.widgets import card, facts, heading, phase, small_table
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import at, items, number
from volcano.kube.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query
from volcano.kube.devices.dra.claims import pod_claim_references
from volcano.services.explain.pods import explain_pod
from volcano.views.amounts import short_name, shown
from volcano.views.pods import pod_row
from volcano.views.times import age, span


class PodPanel:
    """Shows the pod that is chosen on the page of a job; nothing without one."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._shown = ("", "")  # name and version
        with ui.element("div").classes("w-full") as self._box, card():
            self._summary = ui.element("div").classes("w-full")
            self._explanation = ui.element("div").classes("w-full q-mt-sm")

    async def update(self) -> None:
        name = self._job.pod
        pod = self._job.find_pod(name) if name else None
        version = str(pod["metadata"].get("resourceVersion", "")) if pod is not None else ""
        before, self._shown = self._shown, (name, version)
        self._box.set_visibility(bool(name))
        if not name or self._shown == before:
            return
        self._summary.clear()
        with self._summary:
            if pod is None:
                heading(name, 2)
                ui.label("This pod does not exist.")
            else:
                await _summary(self._job, pod)
        if before[0] != name:
            self._offer_explanation(Key(self._job.key.namespace, name))

    def _offer_explanation(self, key: Key) -> None:
        """A button: the analysis takes a moment."""

        async def explain() -> None:
            self._explanation.clear()
            with self._explanation, ui.column().classes("w-full gap-3"):
                found = await computed(
                    self._job.context,
                    lambda connection: explain_pod(connection.client, connection.clock, key),
                )
                if found is not None:
                    show_pod(found, self._job.context.objects.now)

        self._explanation.clear()
        with self._explanation:
            ui.button("Why this node?", icon="troubleshoot", on_click=explain).props("outline dense")


async def _summary(job: OpenJob, pod: Manifest) -> None:
    row, now = pod_row(pod), job.context.objects.now
    rights, namespace = job.context.viewer.rights, row.key.namespace
    with ui.row().classes("w-full items-center gap-3"):
        heading(row.key.name, 2)
        phase(row.status)
        ui.space()
        if await rights.may("get", POD, namespace, subresource="log"):
            ui.button("Logs", icon="subject", on_click=lambda: job.open_tab("logs")).props("flat dense")
        if await rights.may("create", POD, namespace, subresource="exec"):
            ui.button("Shell", icon="terminal", on_click=lambda: job.open_tab("shell")).props("flat dense")
    facts(
        (name, value)
        for name, value in (
            ("Node", (row.node, f"/nodes/{row.node}") if row.node else "none yet"),
            ("Created", f"{timestamp(row.created)} ({span(max(now - row.created, 0))} ago)"),
            ("Requests", ", ".join(f"{short_name(n)} {shown(n, a)}" for n, a in row.requests.items())),
            ("Address", str(at(pod, "status", "podIP", default=""))),
            ("Message", str(at(pod, "status", "message", default=""))),
        )
        if value
    )
    for status in (
        *items(pod, "status", "initContainerStatuses"),
        *items(pod, "status", "containerStatuses"),
    ):
        ui.label(container_text(status, now))
    if row.node:
        await _show_devices(job, pod, row.node)


async def _show_devices(job: OpenJob, pod: Manifest, node: str) -> None:
    """GPUs, shares, MIG instances and devices of claims; nothing for a pod without any."""
    claims, problems = await _claims(job, pod)
    slices = await _slices(job, node) if claims else []
    rows = [*held_rows(node_devices(job.context.objects, node), pod), *claimed_rows(slices, claims, pod)]
    if rows:
        heading("Devices", 2).classes("q-mt-sm").style("font-size: 1rem")
        small_table("Devices of the pod", COLUMNS, rows)
    for problem in problems:
        ui.label(problem).classes("volcano-muted")


async def _claims(job: OpenJob, pod: Manifest) -> tuple[list[Manifest], list[str]]:
    """ResourceClaims of a pod, and why some cannot be read with the viewer's credentials."""
    client, namespace = job.context.viewer.connection.client, job.key.namespace
    found, problems = [], []
    for _, name in pod_claim_references(pod):
        try:
            if name:
                found.append(await client.get(RESOURCE_CLAIM, Key(namespace, name)))
        except ApiError as error:
            problems.append(f"Claim {name}: {error.message}")
    return found, problems


async def _slices(job: OpenJob, node: str) -> list[Manifest]:
    """What the node publishes of its devices; nothing without the right to list it."""
    client = job.context.viewer.connection.client
    try:
        return (await client.list(RESOURCE_SLICE, Query(fields=f"spec.nodeName={node}"))).items
    except ApiError:
        return []


def container_text(status: Mapping[str, Any], now: float) -> str:
    """`main: running for 5m`, with restarts and exit codes."""
    name, restarts = status.get("name", ""), number(status, "restartCount")
    running, ended = at(status, "state", "running"), at(status, "state", "terminated")
    if running is not None:
        text = f"running for {age(running.get('startedAt'), now)}"
    elif ended is not None:
        reason = ended.get("reason") or "ended"
        text = f"{reason} with exit code {number(ended, 'exitCode')}, {age(ended.get('finishedAt'), now)} ago"
        text += f": {ended['message']}" if ended.get("message") else ""
    else:
        waiting = at(status, "state", "waiting", default={})
        text = f"waiting: {waiting.get('reason') or 'not started'}"
        text += f", {waiting['message']}" if waiting.get("message") else ""
    before = at(status, "lastState", "terminated")
    more = f"; {restarts} restarts" if restarts else ""
    if before is not None:
        more += f", before that {before.get('reason') or 'ended'} with exit code {number(before, 'exitCode')}"
    return f"Container {name}: {text}{more}"

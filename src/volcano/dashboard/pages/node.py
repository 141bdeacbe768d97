"""The page of one node: resources, devices with their owners, pods, conditions, and why waiting jobs do not use it."""

from nicegui import ui

from volcano.analysis.explain.case import counted
from volcano.analysis.explain.node import NodeExplanation
from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.claimed_devices import claimed_devices
from volcano.dashboard.data.devices import Device, is_slot
from volcano.dashboard.data.nodes import (
    NodeFacts,
    conditions,
    find_node,
    node_devices,
    node_facts,
    node_resources,
    pods_by_node,
    taints,
)
from volcano.dashboard.pages.bars import BarRows, bare_row, usage_bar
from volcano.dashboard.pages.explanation import Explanation
from volcano.dashboard.pages.node_actions import NodeActions
from volcano.dashboard.pages.tables import LINK, PHASE, TIME, Column, PagedTable
from volcano.dashboard.pages.widgets import (
    Cell,
    card,
    colour_of,
    facts,
    heading,
    nothing,
    small_table,
    time_cell,
)
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import at
from volcano.kube.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Manifest, labels_of
from volcano.kube.client.protocol import Query
from volcano.services.explain.cluster import explain_node
from volcano.views.amounts import short_name, shown
from volcano.views.pods import PodRow, job_of, pod_row
from volcano.views.times import age, span

SHOWN_JOBS = 50
READ_CLAIMS_EVERY = 10.0  # seconds
NodePod = tuple[PodRow, str]  # a pod and the name of its job


async def build(context: Context) -> None:
    name = context.parameters["name"]
    with ui.row().classes("w-full items-center justify-between"):
        heading(f"Node {name}")
        actions = NodeActions(context, name)
    actions.build_progress()
    if find_node(context.objects, name) is None:
        nothing(f"There is no node {name}, or you may not list nodes.")
        return
    page = NodePage(context, name, actions)
    page.build()
    await page.update()
    context.on_change(page.update)


class NodePage:
    """Parts of the page; those that are built from the node itself are built again when it changes."""

    def __init__(self, context: Context, name: str, actions: NodeActions) -> None:
        self._context = context
        self._name = name
        self._actions = actions
        self._version = ""
        self._devices: tuple[Device, ...] = ()
        self._claimed: tuple[Device, ...] = ()  # read with the viewer's credentials: the feed has no claims

    def build(self) -> None:
        with card():
            self._state = ui.label().classes("q-mb-sm")
            self._bars = BarRows(f"Resources of node {self._name}")
        with card("Devices") as self._device_card:
            self._device_rows = ui.column().classes("w-full")
        with card("Pods"):
            self._pods = PagedTable(
                self._context,
                self._pod_columns(),
                key=lambda pod: str(pod[0].key),
                label="Pods of the node",
                order="name",
                empty="The node has no pods.",
            )
            if not self._context.objects.scopes.everywhere(POD):
                nothing("Pods of namespaces in which you may not list them are not shown.")
        Explanation(
            self._context,
            "Why waiting jobs do not use it",
            lambda connection: explain_node(connection.client, connection.clock, self._name),
            _show_explanation,
        )
        self._about = ui.column().classes("w-full gap-4")
        ui.timer(READ_CLAIMS_EVERY, self._read_claims)

    async def _read_claims(self) -> None:
        client = self._context.viewer.connection.client
        try:
            slices = (await client.list(RESOURCE_SLICE, Query(fields=f"spec.nodeName={self._name}"))).items
            claims = (await client.list(RESOURCE_CLAIM)).items if slices else []
        except ApiError:
            return  # without the right, or on a server without the group
        objects = self._context.objects
        self._claimed = claimed_devices(slices, claims, objects.get(pods_by_node).get(self._name, ()))
        self._show_devices((*node_devices(objects, self._name), *self._claimed))

    async def update(self) -> None:
        objects = self._context.objects
        node = find_node(objects, self._name)
        found = next((each for each in objects.get(node_facts) if each.name == self._name), None)
        if node is None or found is None:
            self._state.set_text("The node has been deleted.")
            return
        self._state.set_text(_standing(found))
        self._bars.show([bare_row(self._name, self._usage_bars(found))])
        pods = objects.get(pods_by_node).get(self._name, ())
        self._pods.show([(pod_row(pod), job_of(pod)) for pod in pods])
        self._show_devices((*node_devices(objects, self._name), *self._claimed))
        version = str(at(node, "metadata", "resourceVersion", default=""))
        if version != self._version:
            self._version = version
            self._show_about(node, found)
        await self._actions.update(cordoned=bool(at(node, "spec", "unschedulable")))

    def _usage_bars(self, found: NodeFacts) -> list[dict[str, object]]:
        names = [
            name for name in self._context.objects.get(node_resources) if found.row.allocatable.get(name)
        ]
        bars = [usage_bar(short_name(name), found.usage(name), found.part(name) or 0.0) for name in names]
        most = found.row.allocatable.get("pods", 0.0)
        if most:
            bars.append(usage_bar("pods", f"{found.row.pods}/{most:.0f}", found.row.pods / most))
        return bars

    def _show_devices(self, devices: tuple[Device, ...]) -> None:
        self._device_card.set_visibility(bool(devices))
        if devices == self._devices:
            return
        self._devices = devices
        self._device_rows.clear()
        with self._device_rows:
            free = sum(not device.owners and device.healthy for device in devices)
            text = f"{counted(len(devices), 'device')}, {free} of them free."
            if any(map(is_slot, devices)):
                text += " Which card a pod got is known to the node only: pods fill slots in the order of their names."
            ui.label(text).classes("volcano-muted")
            small_table("Devices and their owners", DEVICE_COLUMNS, device_rows(devices))

    def _show_about(self, node: Manifest, found: NodeFacts) -> None:
        self._about.clear()
        with self._about:
            with card("Conditions"):
                small_table("Conditions", CONDITION_COLUMNS, _condition_rows(node, self._context.objects.now))
            with card("About the node"):
                facts(_facts(node, found, self._context.objects.now))
            with card("Labels"):
                small_table("Labels", ("Label", "Value"), sorted(labels_of(node).items()))

    def _pod_columns(self) -> tuple[Column[NodePod], ...]:
        return (
            Column(
                "name",
                "Pod",
                lambda pod: {
                    "text": pod[0].key.name,
                    "href": f"/jobs/{pod[1]}?pod={pod[0].key.name}" if pod[1] else None,
                },
                lambda pod: pod[0].key.name,
                LINK,
            ),
            Column(
                "namespace",
                "Namespace",
                lambda pod: pod[0].key.namespace,
                lambda pod: pod[0].key.namespace,
                wide_only=True,
            ),
            Column(
                "job",
                "Job",
                lambda pod: {
                    "text": pod[1].partition("/")[2],
                    "href": f"/jobs/{pod[1]}" if pod[1] else None,
                },
                lambda pod: pod[1],
                LINK,
            ),
            Column(
                "status",
                "Status",
                lambda pod: {"text": pod[0].status, "colour": colour_of(pod[0].status)},
                lambda pod: pod[0].status,
                PHASE,
            ),
            Column("requests", "Requests", lambda pod: _requests(pod[0]), wide_only=True),
            Column(
                "age",
                "Age",
                lambda pod: time_cell(pod[0].created, self._context.objects.now),
                lambda pod: -pod[0].created,
                TIME,
                wide_only=True,
            ),
        )


DEVICE_COLUMNS = ("Device", "Kind", "Capacity", "Used", "Owners")
CONDITION_COLUMNS = ("Condition", "Status", "Since", "Reason", "Message")


def device_rows(devices: tuple[Device, ...]) -> list[list[Cell]]:
    """A row per device and owner: the owner's pod, with a link to its job."""
    rows: list[list[Cell]] = []
    for device in devices:
        used = f"{device.used:.0%}" if device.healthy else "unhealthy"
        about: list[Cell] = [device.name, device.kind, device.capacity or device.uuid, used]
        if not device.owners:
            rows.append([*about, "free" if device.healthy else ""])
        for number, owner in enumerate(device.owners):
            cell: Cell = (owner.text(), f"/jobs/{owner.job}") if owner.job else owner.text()
            rows.append([*(about if not number else ["", "", "", ""]), cell])
    return rows


def _standing(found: NodeFacts) -> str:
    text = f"{found.row.status}, {counted(found.row.pods, 'pod')}"
    domains = ", ".join(f"{name} (tier {tier})" for tier, name in found.domains)
    return f"{text}; pool {found.pool}" + (f"; in HyperNodes {domains}" if domains else "")


def _requests(pod: PodRow) -> str:
    return ", ".join(f"{short_name(name)} {shown(name, amount)}" for name, amount in pod.requests.items())


def _condition_rows(node: Manifest, now: float) -> list[list[Cell]]:
    return [
        [
            str(each.get("type", "")),
            str(each.get("status", "")),
            age(each.get("lastTransitionTime"), now),
            str(each.get("reason", "")),
            str(each.get("message", "")),
        ]
        for each in conditions(node)
    ]


def _facts(node: Manifest, found: NodeFacts, now: float) -> list[tuple[str, str]]:
    info = at(node, "status", "nodeInfo", default={}) or {}
    addresses = at(node, "status", "addresses", default=()) or ()
    about = {
        "Created": f"{timestamp(found.row.created)} ({span(now - found.row.created)} ago)",
        "Taints": ", ".join(taints(node)) or "none",
        "Addresses": ", ".join(f"{each.get('type')} {each.get('address')}" for each in addresses),
        "Kubelet": info.get("kubeletVersion", ""),
        "Container runtime": info.get("containerRuntimeVersion", ""),
        "Operating system": f"{info.get('osImage', '')} ({info.get('architecture', '')})",
        "Kernel": info.get("kernelVersion", ""),
        "Pod CIDR": str(at(node, "spec", "podCIDR", default="")),
    }
    return [(name, str(value)) for name, value in about.items() if value]


def _show_explanation(found: NodeExplanation) -> None:
    refused = found.refused
    if not refused:
        ui.label("No job waits.").classes("volcano-muted")
        return
    small_table(
        "Waiting jobs",
        ("Job", "User", "Why the node does not take it"),
        [((row.job, f"/jobs/{row.job}"), row.user, row.reason) for row in refused[:SHOWN_JOBS]],
    )
    if len(refused) > SHOWN_JOBS:
        ui.label(f"and {len(refused) - SHOWN_JOBS} more").classes("volcano-muted")

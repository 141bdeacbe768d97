"""The page of nodes: a heat map by HyperNode or pool, how scattered free devices are, and a table."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

from nicegui import events, ui

from volcano.analysis.explain.case import counted
from volcano.dashboard.context import Context
from volcano.dashboard.data.devices import Device
from volcano.dashboard.data.nodes import (
    DOMINANT,
    Fragmentation,
    NodeFacts,
    device_resource,
    fragmentation,
    groupings,
    heat_map,
    is_countable,
    node_devices,
    node_facts,
    node_resources,
)
from volcano.dashboard.pages.cells import CellMap, legend
from volcano.dashboard.pages.tables import BAR, LINK, PHASE, TIME, Column, PagedTable
from volcano.dashboard.pages.widgets import card, colour_of, heading, nothing, small_table, time_cell
from volcano.kube.api.kinds import NODE, POD
from volcano.views.amounts import FIRST, short_name, shown
from volcano.views.nodes import numbered

STATES = {"": "All states", "Ready": "Ready", "Cordoned": "Cordoned", "NotReady": "Not ready"}
SHOWN_SLOTS = 16  # devices of a node in the table
HUES, SHADES = 12, (38, 62)  # of owners; the owner is also in the label of the slot
SLOTS = (
    '<span class="volcano-slots" role="img" :aria-label="props.value.label"><span v-for="(slot, index) in '
    'props.value.slots" :key="index" class="volcano-slot" :title="slot.title" :style="{background: slot.colour}">'
    "{{ slot.sign }}</span></span> <span>{{ props.value.text }}</span>"
)


async def build(context: Context) -> None:
    heading("Nodes")
    if not context.objects.scopes.everywhere(NODE):
        nothing("You may not list nodes.")
        return
    if not context.objects.scopes.everywhere(POD):
        nothing("You may not list the pods of all namespaces: only what your pods use is shown as used.")
    page = NodesPage(context)
    page.build()
    page.update()
    context.on_change(page.update)


class NodesPage:
    """Heat map and table; grouping, colour and filters are in the address."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scattered: Fragmentation | None = None
        self._choices: dict[str, ui.select] = {}

    def build(self) -> None:
        self._controls()
        with card("Utilisation"):
            with ui.row().classes("w-full justify-between items-center q-mb-sm"):
                self._summary = ui.label().classes("volcano-muted")
                legend()
            self._map = CellMap("Nodes", "/nodes/")
            self._none = ui.label("No node matches.").classes("volcano-muted")
        with card("Fragmentation") as self._fragmentation:
            self._fragments = ui.column().classes("w-full gap-2")
        self._table = PagedTable(
            self._context,
            self._columns(),
            key=lambda node: node.name,
            label="Nodes",
            order="name",
            empty="No node matches.",
        )

    def _controls(self) -> None:
        context = self._context
        groups, resources = groupings(context.objects), self._resources()
        with ui.row().classes("w-full items-center gap-4"):
            text = ui.input(
                "Filter by name", value=context.query.get("text", ""), on_change=self._set("text")
            )
            text.props("dense outlined clearable data-filter debounce=200")
            self._select("state", STATES, "State")
            self._select("group", groups, "Group by")
            self._select("resource", resources, "Colour by")

    def _select(self, name: str, choices: dict[str, str], label: str) -> None:
        self._choices[name] = (
            ui.select(choices, value=self._chosen(name, choices), label=label, on_change=self._set(name))
            .props("dense outlined")
            .classes("min-w-36")
        )

    def _chosen(self, name: str, choices: dict[str, str]) -> str:
        """The choice in the address; the first without one, or when there is no such choice any more."""
        chosen = self._context.query.get(name, "")
        return chosen if chosen in choices else next(iter(choices))

    def _offer(self, name: str, choices: dict[str, str]) -> str:
        """Offers these choices, which change with the cluster, and returns the chosen one."""
        chosen = self._chosen(name, choices)
        if self._choices[name].options != choices:
            self._choices[name].set_options(choices, value=chosen)
        return chosen

    def _resources(self) -> dict[str, str]:
        """Choices of the colour: the first is that of devices, if nodes have any."""
        objects = self._context.objects
        first = device_resource(objects.get(node_facts))
        names = [first, *(name for name in objects.get(node_resources) if name != first)] if first else []
        names = names or objects.get(node_resources)
        return {**{name: short_name(name) for name in names}, DOMINANT: "most used resource"}

    def update(self) -> None:
        objects, query = self._context.objects, self._context.query
        nodes = objects.get(node_facts)
        text, state = query.get("text", "").lower(), query.get("state", "")
        found = [node for node in nodes if text in node.name.lower() and state in ("", node.state)]
        resources = self._resources()
        grouping, resource = self._offer("group", groupings(objects)), self._offer("resource", resources)
        self._map.show(heat_map(found, grouping, resource), resources[resource])
        self._none.set_visibility(not found)
        self._summary.set_text(_counted(nodes))
        self._table.show(found)
        self._show_fragmentation(nodes, resource)

    def _show_fragmentation(self, nodes: tuple[NodeFacts, ...], resource: str) -> None:
        devices = resource if is_countable(resource) else device_resource(nodes)
        self._fragmentation.set_visibility(bool(devices))
        scattered = fragmentation(nodes, devices) if devices else None
        if scattered is None or scattered == self._scattered:
            return
        self._scattered = scattered
        self._fragments.clear()
        with self._fragments:
            for line in fragmentation_lines(scattered):
                ui.label(line)
            word = short_name(scattered.resource)
            if scattered.sizes:
                small_table(
                    "Room for pods by size",
                    (f"{word} per pod", "Pods that fit now", f"If all free {word} were on one node"),
                    [(str(size.size), str(size.fits), str(size.together)) for size in scattered.sizes],
                )

    def _set(self, name: str) -> Callable[[events.ValueChangeEventArguments[Any]], None]:
        def change(event: events.ValueChangeEventArguments[Any]) -> None:
            value = str(event.value or "")
            default = next(iter(self._choices[name].options)) if name in self._choices else ""
            self._context.set_query(**{name: "" if value == default else value})
            self.update()

        return change

    def _columns(self) -> tuple[Column[NodeFacts], ...]:
        devices = len(self._context.objects.get(node_resources)) > len(FIRST)
        slots: Column[NodeFacts] = Column(
            "devices",
            "Devices",
            lambda node: slots_of(node_devices(self._context.objects, node.name)),
            NodeFacts.device_part,
            SLOTS,
        )
        return (
            Column(
                "name",
                "Name",
                lambda node: {"text": node.name, "href": f"/nodes/{node.name}"},
                lambda node: numbered(node.name),
                LINK,
            ),
            Column(
                "status",
                "Status",
                lambda node: {"text": node.state, "colour": node_colour(node.state)},
                lambda node: node.state,
                PHASE,
            ),
            Column("group", "Group", _place, lambda node: numbered(_place(node)), wide_only=True),
            Column(
                "pods",
                "Pods",
                lambda node: node.row.pods,
                lambda node: node.row.pods,
                align="right",
                wide_only=True,
            ),
            *(_usage_column(name, wide_only=devices or name != "cpu") for name in FIRST),
            *((slots,) if devices else ()),
            Column(
                "age",
                "Age",
                lambda node: time_cell(node.row.created, self._context.objects.now),
                lambda node: -node.row.created,
                TIME,
                wide_only=True,
            ),
        )


def _place(node: NodeFacts) -> str:
    """The lowest HyperNode of a node, or its pool."""
    return node.domains[0][1] if node.domains else node.pool


def _usage_column(resource: str, *, wide_only: bool) -> Column[NodeFacts]:
    return Column(
        resource,
        short_name(resource),
        lambda node: {"part": round(node.part(resource) or 0.0, 3), "text": node.usage(resource)},
        lambda node: _used_part(node, resource),
        BAR,
        wide_only=wide_only,
    )


def _used_part(node: NodeFacts, resource: str) -> float:
    part = node.part(resource)
    return -1.0 if part is None else part


def slots_of(devices: tuple[Device, ...]) -> dict[str, Any]:
    """Devices of a node as squares, those of one owner in one colour, and how many have owners."""
    slots = []
    for device in devices[:SHOWN_SLOTS]:
        owner = device.owners[0].job or device.owners[0].pod if device.owners else ""
        slots.append(
            {
                "title": device.sentence(),
                "colour": hue(owner) if owner else "transparent",
                "sign": "" if device.healthy else "×",
            }
        )
    more = f" (+{len(devices) - SHOWN_SLOTS} devices)" if len(devices) > SHOWN_SLOTS else ""
    label = "; ".join(device.sentence() for device in devices[:SHOWN_SLOTS])
    held = f"{sum(bool(device.owners) for device in devices)}/{len(devices)}" if devices else ""
    return {"slots": slots, "text": held + more, "label": label}


def hue(owner: str) -> str:
    """The colour of an owner, the same on every node and in every process."""
    shade, hue_number = divmod(crc32(owner.encode()) % (HUES * len(SHADES)), HUES)
    return f"hsl({hue_number * 360 // HUES} 55% {SHADES[shade]}%)"


def node_colour(state: str) -> str:
    return colour_of({"Cordoned": "Closing"}.get(state, state))


def fragmentation_lines(found: Fragmentation) -> list[str]:
    """The figures in sentences."""
    word = short_name(found.resource)
    lines = [f"{shown(found.resource, found.free)} {word} are free on nodes that take pods."]
    if found.free:
        by_free = ", ".join(f"{counted(count, 'node')} with {free}" for free, count in found.by_free if free)
        lines.append(f"Free {word} by node: {by_free}.")
    if found.part:
        lines.append(
            f"Of pods with {found.sizes[-1].size} {word} each, {found.part:.0%} do not fit that would fit if free "
            f"{word} were not scattered."
        )
    if found.without_cpu_or_memory:
        lines.append(
            f"{shown(found.resource, found.without_cpu_or_memory)} of them are on nodes with less than 1 CPU or 1Gi "
            "of memory left."
        )
    if found.on_unusable_nodes:
        lines.append(
            f"{shown(found.resource, found.on_unusable_nodes)} more are on nodes that are cordoned or not ready."
        )
    return lines


def _counted(nodes: tuple[NodeFacts, ...]) -> str:
    parts = [counted(len(nodes), "node")]
    if control := sum(node.is_control_plane for node in nodes):
        parts.append(f"{control} of the control plane")
    for state, word in (("Cordoned", "cordoned"), ("NotReady", "not ready")):
        if count := sum(node.state == state for node in nodes):
            parts.append(f"{count} {word}")
    return ", ".join(parts)

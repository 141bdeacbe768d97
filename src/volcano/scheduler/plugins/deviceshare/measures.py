"""Metrics of shared cards, under Volcano's names: only of nodes whose pods changed."""

from collections.abc import Iterator

from volcano.kube.devices.vgpu import card_uuid
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.plugins.deviceshare.card_table import CardTable
from volcano.scheduler.plugins.deviceshare.vgpu_cards import VgpuKind


def card_metrics(table: CardTable, snapshot: Snapshot) -> Iterator[MetricSample]:
    """What pods hold of each card, and each pod's part; series of pods and nodes that are gone are removed."""
    if not isinstance(table.kind, VgpuKind):
        return
    measured = table.measured
    for name in [name for name in measured if name not in snapshot.row_of]:
        yield from (MetricSample(*series, None) for series in measured.pop(name))
    rows, table.unmeasured = sorted(table.unmeasured), set()
    for row in rows:
        name = snapshot.nodes[row].name
        found = {sample[:2]: sample for sample in _samples(table, snapshot, row, name)}
        yield from (MetricSample(*series, None) for series in measured.pop(name, ()) if series not in found)
        yield from found.values()
        if found:
            measured[name] = tuple(found)


def _samples(table: CardTable, snapshot: Snapshot, row: int, node: str) -> Iterator[MetricSample]:
    used = table.used
    for column, card in enumerate(table.cards[row]):
        for what, amount in (
            ("shared_number", used.users.item(row, column)),
            ("allocated_memory", used.memory.item(row, column)),
            ("allocated_cores", used.cores.item(row, column)),
            ("memory_limit", card.memory),
        ):
            yield MetricSample(f"vgpu_device_{what}", (card.uuid, node), float(amount))
    for task in snapshot.tasks_on[row].values():
        held: dict[str, tuple[int, int]] = {}
        for share, memory, cores in table.kind.shares(task):
            uuid = card_uuid(share)
            known = held.get(uuid, (0, 0))
            held[uuid] = (known[0] + memory, known[1] + cores)
        for uuid, amounts in held.items():
            for what, amount in zip(("memory", "core"), amounts, strict=True):
                metric = f"vgpu_device_{what}_allocation_for_a_certain_pod"
                yield MetricSample(metric, (uuid, node, task.key), float(amount))

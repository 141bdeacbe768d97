"""The enabled kinds of devices with their cards, kept between cycles while the settings stay the same."""

from volcano.model.snapshot import Snapshot
from volcano.scheduler.plugins.deviceshare.ascend_cards import AscendKind
from volcano.scheduler.plugins.deviceshare.card_table import CardTable
from volcano.scheduler.plugins.deviceshare.device_config import read_config
from volcano.scheduler.plugins.deviceshare.mig import MigStates
from volcano.scheduler.plugins.deviceshare.settings import Settings
from volcano.scheduler.plugins.deviceshare.shared_gpus import GpuShareKind
from volcano.scheduler.plugins.deviceshare.vgpu_cards import VgpuKind

DERIVED = "deviceshare"  # key in `Snapshot.derived`


def tables_of(settings: Settings, snapshot: Snapshot) -> tuple[CardTable, ...]:
    """Cards of every enabled kind as of a snapshot."""
    text = snapshot.device_configs.get(settings.config)
    key = (settings.sharing, settings.number, settings.vgpu, settings.ascend, settings.policy, text)
    known = snapshot.derived.get(DERIVED)
    if known is None or known[0] != key:
        known = snapshot.derived[DERIVED] = (key, tuple(_tables(settings, text)))
    tables: tuple[CardTable, ...] = known[1]
    for table in tables:
        table.refresh(snapshot)
    return tables


def _tables(settings: Settings, text: str | None) -> list[CardTable]:
    config = read_config(text)
    states = MigStates(config.vgpu.geometries, config.vgpu.factor)
    found = []
    if settings.sharing or settings.number:
        found.append(CardTable(GpuShareKind(by_number=settings.number), states))
    if settings.vgpu:
        found.append(CardTable(VgpuKind(config.vgpu, states, settings.policy), states))
    if settings.ascend:
        found += [
            CardTable(AscendKind(each, settings.policy, soft_partitions=config.soft_partitions), states)
            for each in config.ascend
        ]
    return found

"""Watches the health and the load of the GPUs of this host."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.nodes.kubelet.gpus.inventory import Gpu, GpuLoad, devices_of_failed_cards, is_real
from volcano.nodes.kubelet.gpus.nvml import GpuReader

log = Log("gpus")

INTERVAL = 10.0  # seconds between readings


class GpuMonitor:
    """The latest readings. `on_change` is awaited with the problems by device whenever they have changed."""

    def __init__(
        self,
        reader: GpuReader | None,
        cards: Sequence[Gpu],
        clock: Clock,
        on_change: Callable[[Mapping[str, str]], Awaitable[None]],
    ) -> None:
        """Without a reader nothing is watched, and all cards count as healthy."""
        self.cards = tuple(cards)
        self.load: tuple[GpuLoad, ...] = ()
        self.problems: Mapping[str, str] = {}
        self._reader = reader
        self._clock = clock
        self._on_change = on_change

    async def run(self) -> None:
        """Reads until cancelled."""
        if self._reader is None:
            if any(is_real(card) for card in self.cards):
                log.info(
                    "GPU health and load are not watched", reason="nvidia-ml-py or NVML is not available"
                )
            return
        while True:
            await self.read_once()
            await self._clock.sleep(INTERVAL)

    async def read_once(self) -> None:
        if self._reader is None:
            return
        problems, self.load = await asyncio.to_thread(_read, self._reader)
        found = devices_of_failed_cards(self.cards, problems)
        if found != self.problems:
            self.problems = found
            await self._on_change(found)


def _read(reader: GpuReader) -> tuple[dict[str, str], tuple[GpuLoad, ...]]:
    return reader.problems(), reader.load()

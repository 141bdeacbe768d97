"""Watches the ConfigMaps that plugins of the current configuration read."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.client.protocol import Client, Decode, Event, EventType, Watch
from volcano.kube.informers.reflector import Reflector
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.inputs import ConfigMapInput

SYNC_TIMEOUT = 5.0  # seconds; without permission to read a ConfigMap, the scheduler works with defaults


class ConfigMapInformer:
    """One reflector for each ConfigMap."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        decode: Decode,
        apply: Callable[[Sequence[Event]], None],
        config: Callable[[], Config | None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._decode = decode
        self._apply = apply
        self._config = config
        self._changed = asyncio.Event()
        self._reflectors: list[Reflector] = []

    def check(self) -> None:
        """To be called when the configuration changed."""
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            wanted = config_maps(self._config())
            self._reflectors = [self._reflector(*each) for each in wanted]
            running = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
            try:
                while config_maps(self._config()) == wanted:
                    await self._changed.wait()
                    self._changed.clear()
            finally:
                for task in running:
                    task.cancel()
            left = [found for reflector in self._reflectors for found in reflector.objects()]
            self._apply([Event(EventType.DELETED, CONFIG_MAP, found) for found in left])

    def _reflector(self, namespace: str, name: str) -> Reflector:
        watch = Watch(CONFIG_MAP, namespace=namespace, fields=f"metadata.name={name}")
        return Reflector(self._client, watch, self._apply, self._clock, decode=self._decode, identify=_key)

    async def wait_for_sync(self) -> None:
        """Returns when each ConfigMap was read or does not exist; soon, when one cannot be read or none is needed."""
        if not config_maps(self._config()):
            return
        await asyncio.sleep(0)  # `run` starts the reflectors
        synced = asyncio.gather(*(reflector.synced.wait() for reflector in self._reflectors))
        timeout = asyncio.create_task(self._clock.sleep(SYNC_TIMEOUT))
        await asyncio.wait((synced, timeout), return_when=asyncio.FIRST_COMPLETED)
        synced.cancel()
        timeout.cancel()


def config_maps(config: Config | None) -> tuple[tuple[str, str], ...]:
    """Namespaces and names of the ConfigMaps that plugins read."""
    declared = config.inputs(ConfigMapInput) if config is not None else ()
    named = {each.named(configured.arguments) for configured, each in declared}
    return tuple(sorted(each for each in named if each is not None))


def _key(found: Any) -> object:
    return found.namespace, found.name

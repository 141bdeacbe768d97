"""Watches the one ConfigMap that describes devices, while the configuration has a plugin that reads it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.client.protocol import Client, Decode, Event, EventType, Watch
from volcano.kube.informers.reflector import Reflector
from volcano.scheduler.engine.config import Config
from volcano.scheduler.plugins.deviceshare.settings import Settings, is_enabled

SYNC_TIMEOUT = 5.0  # seconds; without permission to read the ConfigMap, the scheduler works with defaults


class DeviceConfigInformer:
    """One reflector for the ConfigMap that the current configuration names; none without the plugin."""

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
        self._reflector: Reflector | None = None

    def check(self) -> None:
        """To be called when the configuration changed."""
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._changed.clear()
            wanted = device_config_map(self._config())
            if wanted is None:
                await self._changed.wait()
                continue
            namespace, name = wanted
            watch = Watch(CONFIG_MAP, namespace=namespace, fields=f"metadata.name={name}")
            self._reflector = reflector = Reflector(
                self._client, watch, self._apply, self._clock, decode=self._decode, identify=_key
            )
            running = asyncio.create_task(reflector.run())
            try:
                while device_config_map(self._config()) == wanted:
                    await self._changed.wait()
                    self._changed.clear()
            finally:
                running.cancel()
                self._reflector = None
            self._apply([Event(EventType.DELETED, CONFIG_MAP, found) for found in reflector.objects()])

    async def wait_for_sync(self) -> None:
        """Returns when the ConfigMap was read or does not exist; soon, when it cannot be read or is not needed."""
        if device_config_map(self._config()) is None:
            return
        await asyncio.sleep(0)  # `run` starts the reflector
        if self._reflector is None:
            return
        synced = asyncio.create_task(self._reflector.synced.wait())
        timeout = asyncio.create_task(self._clock.sleep(SYNC_TIMEOUT))
        await asyncio.wait((synced, timeout), return_when=asyncio.FIRST_COMPLETED)
        synced.cancel()
        timeout.cancel()


def device_config_map(config: Config | None) -> tuple[str, str] | None:
    """Namespace and name of the device ConfigMap; None when no plugin reads it."""
    for tier in config.tiers if config is not None else ():
        for plugin in tier:
            if plugin.name == "deviceshare" and is_enabled(plugin.arguments):
                return Settings.of(plugin.arguments).config
    return None


def _key(found: Any) -> object:
    return found.namespace, found.name

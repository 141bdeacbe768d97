"""The scheduler's configuration in a ConfigMap: editing it reconfigures the scheduler."""

from volcano.clock import Clock
from volcano.kube.client import Client, Event, EventType
from volcano.kube.controller import Watch
from volcano.kube.kinds import CONFIG_MAP
from volcano.kube.names import SYSTEM_NAMESPACE
from volcano.kube.reflector import Reflector, each_event
from volcano.local.system import CONFIG_KEY, CONFIG_NAME
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.plugins.extender.http import HttpPort


class ConfigMapSource(ConfigSource):
    """Watches the ConfigMap `volcano-scheduler-configmap` in volcano-system; keeps the last valid
    configuration."""

    def __init__(self, client: Client, text: str | None) -> None:
        super().__init__(text, file=f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_NAME}")
        self._client = client
        self.ports = {"extender": HttpPort()}

    async def follow(self, clock: Clock) -> None:
        watch = Watch(CONFIG_MAP, namespace=SYSTEM_NAMESPACE, fields=f"metadata.name={CONFIG_NAME}")
        await Reflector(self._client, watch, each_event(self._on_event), clock).run()

    def _on_event(self, event: Event) -> None:
        data = event.object.get("data") or {}
        if event.type is not EventType.DELETED and CONFIG_KEY in data:
            self.offer(data[CONFIG_KEY])

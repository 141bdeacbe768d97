"""The scheduler's configuration in a ConfigMap: editing it reconfigures the scheduler."""

from collections.abc import Callable

from volcano.base.clock import Clock
from volcano.embedded.system import CONFIG_KEY, CONFIG_NAME
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Client, Event, EventType, Watch
from volcano.kube.informers.reflector import Reflector, each_event
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.plugins.extender import HttpPort


class ConfigMapSource(ConfigSource):
    """Watches the ConfigMap `volcano-scheduler-configmap` in volcano-system; keeps the last valid
    configuration."""

    def __init__(self, client: Client, text: str | None) -> None:
        file = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_NAME}"
        super().__init__(text, file, ports={"extender": HttpPort()})
        self._client = client

    async def watch(self, clock: Clock, on_change: Callable[[], None]) -> None:
        def on_event(event: Event) -> None:
            data = event.object.get("data") or {}
            if event.type is not EventType.DELETED and CONFIG_KEY in data and self.load(data[CONFIG_KEY]):
                on_change()

        watch = Watch(CONFIG_MAP, namespace=SYSTEM_NAMESPACE, fields=f"metadata.name={CONFIG_NAME}")
        await Reflector(self._client, watch, each_event(on_event), clock).run()

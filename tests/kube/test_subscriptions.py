"""A controller may watch more or less while it runs."""

import asyncio
from collections.abc import Iterable, Sequence

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.clock import Instant, VirtualClock
from volcano.kube.client import Event, EventType
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.manifest import Key, Manifest, key_of


class Census(Reconciler[str]):
    """Lists the config maps of namespaces that are labelled, and watches those only."""

    name = "census"

    def __init__(self) -> None:
        super().__init__()
        self.watches: Sequence[Watch] = (Watch(NAMESPACE),)
        self.counts: list[tuple[str, list[str]]] = []

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        labelled = [item for item in self.indexer.all(NAMESPACE) if "census" in item["metadata"]["labels"]]
        watches = (
            Watch(NAMESPACE),
            *(Watch(CONFIG_MAP, namespace=item["metadata"]["name"]) for item in labelled),
        )
        if watches != self.watches:
            self.watches = watches

    def keys(self, event: Event) -> Iterable[str]:
        return (key_of(event.object).name if event.kind is NAMESPACE else key_of(event.object).namespace,)

    def reconcile(self, key: str, now: Instant) -> Plan:
        present = [key_of(item) for item in self.indexer.all(CONFIG_MAP)]
        self.counts.append((str(key), [name for home, name in present if home == key]))
        return NOTHING


def labelled(name: str, **labels: str) -> Manifest:
    manifest = namespace(name)
    manifest["metadata"]["labels"] = {"x": "y", **labels}
    return manifest


async def rest() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


async def test_nothing_is_decided_before_a_new_watch_has_listed_and_old_objects_are_dropped() -> None:
    clock = VirtualClock()
    client = DirectClient(registry(clock=clock))
    controller = Census()
    await client.create(NAMESPACE, labelled("team"))
    await client.create(CONFIG_MAP, config_map("a", "team"))
    running = asyncio.create_task(ControllerRunner(controller, client, clock).run())
    await rest()
    assert controller.counts == [("team", [])]
    await client.patch(NAMESPACE, Key("", "team"), {"metadata": {"labels": {"census": "yes"}}})
    await rest()
    assert controller.counts[1:] == [("team", ["a"])]
    await client.create(CONFIG_MAP, config_map("b", "team"))
    await rest()
    assert controller.counts[2:] == [("team", ["a", "b"])]
    await client.patch(NAMESPACE, Key("", "team"), {"metadata": {"labels": {"census": None}}})
    await rest()
    await client.create(CONFIG_MAP, config_map("c", "team"))
    await rest()
    assert list(controller.indexer.all(CONFIG_MAP)) == []
    assert len(controller.counts) == 4
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_deletion_is_final_even_if_a_newer_version_is_known() -> None:
    controller = Census()
    known = labelled("team")
    known["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    older = {**known, "metadata": {**known["metadata"], "resourceVersion": "5"}}
    controller.on_event(Event(EventType.ADDED, NAMESPACE, known))
    controller.on_event(Event(EventType.DELETED, NAMESPACE, older))
    assert controller.indexer.get(NAMESPACE, Key("", "team")) is None

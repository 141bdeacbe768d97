"""Colocation configuration controller: writes the memory limits of the newest matching configuration to pods."""

from collections.abc import Iterable, Sequence

import orjson

from volcano.clock import Instant
from volcano.kube import selectors
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, ObjectReconciler, Plan, Watch, WorkItem
from volcano.kube.kinds import COLOCATION_CONFIGURATION, POD
from volcano.kube.manifest import Key, Manifest, annotations_of, is_deleting, key_of, labels_of, uid_of
from volcano.kube.operations import Patch

CONFIG_NAME = "volcano.sh/colocation-config-name"
CONFIG = "volcano.sh/colocation-config"
NO_CONFIG = "{}"


ALONE = (Watch(COLOCATION_CONFIGURATION),)
WITH_PODS = (*ALONE, Watch(POD))


class ColocationController(ObjectReconciler):
    """Keys are pods. Nodes apply what the annotations say.

    Pods are watched at first, to remove what configurations that were deleted meanwhile had written, and then only
    while there is a configuration: most clusters have none, and all pods are more than other controllers watch.
    """

    name = "colocation-config-controller"
    kind = POD

    def __init__(self) -> None:
        super().__init__()
        self.watches: Sequence[Watch] = WITH_PODS
        self.indexer.add_namespace_index(COLOCATION_CONFIGURATION, POD)
        self.indexer.add_index(POD, "configured", lambda pod: (CONFIG_NAME in annotations_of(pod),))

    def on_event(self, event: Event) -> None:
        if event.kind == COLOCATION_CONFIGURATION:
            self.watches = WITH_PODS
        super().on_event(event)

    def step(self, now: Instant) -> list[WorkItem]:
        items = super().step(now)
        has_configurations = self.indexer.count(COLOCATION_CONFIGURATION) > 0
        if not has_configurations and not self.indexer.by_index(POD, "configured", True):
            self.watches = ALONE
        return items

    def is_irrelevant(self, event: Event) -> bool:
        if event.kind != POD or CONFIG_NAME in annotations_of(event.object):
            return False
        namespace = event.object["metadata"]["namespace"]
        return not self.indexer.by_index(COLOCATION_CONFIGURATION, "namespace", namespace)

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == POD:
            return (key_of(event.object),)
        namespace, selector = event.object["metadata"]["namespace"], _selector(event.object)
        pods = self.indexer.by_index(POD, "namespace", namespace)
        name = key_of(event.object).name
        return [
            key_of(pod)
            for pod in pods
            if selector.matches(labels_of(pod)) or annotations_of(pod).get(CONFIG_NAME) == name
        ]

    def reconcile_object(self, pod: Manifest, now: Instant) -> Plan:
        wanted = self._wanted(pod)
        if all(annotations_of(pod).get(name) == value for name, value in wanted.items()):
            return NOTHING
        body = {"metadata": {"uid": uid_of(pod), "annotations": wanted}}
        return Plan([Patch(POD, key_of(pod), body, if_present=True)])

    def _wanted(self, pod: Manifest) -> dict[str, str | None]:
        """The annotations that the pod should have; None for one that it should not have."""
        namespace = pod["metadata"]["namespace"]
        configurations = self.indexer.by_index(COLOCATION_CONFIGURATION, "namespace", namespace)
        for configuration in sorted(configurations, key=_age, reverse=True):
            if not is_deleting(configuration) and _selector(configuration).matches(labels_of(pod)):
                limits = (configuration.get("spec") or {}).get("memoryQos") or {}
                text = orjson.dumps(limits, option=orjson.OPT_SORT_KEYS).decode()
                return {CONFIG_NAME: key_of(configuration).name, CONFIG: text}
        if CONFIG_NAME in annotations_of(pod):
            return {CONFIG_NAME: None, CONFIG: NO_CONFIG}
        return {}


def _selector(configuration: Manifest) -> selectors.LabelSelector:
    """The selected pods: none without a selector, all with an empty one."""
    selector = (configuration.get("spec") or {}).get("selector")
    try:
        return selectors.NOTHING if selector is None else selectors.from_object(selector)
    except ValueError:
        return selectors.NOTHING


def _age(configuration: Manifest) -> tuple[str, str]:
    return configuration["metadata"].get("creationTimestamp", ""), key_of(configuration).name

"""HyperNode controller: counts the nodes of every HyperNode, and discovers HyperNodes from node labels."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from volcano.clock import Instant
from volcano.kube.client import Event, EventType
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.errors import ApiError
from volcano.kube.kinds import CONFIG_MAP, HYPER_NODE, NODE
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of, labels_of, uid_of
from volcano.kube.names import SYSTEM_NAMESPACE
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.selectors import from_object
from volcano.log import Log
from volcano.yaml_loader import YamlError, load_yaml

log = Log("hypernode")

SOURCE_LABEL = "volcano.sh/network-topology-source"
CONFIG_KEY = "volcano-controller.conf"
LABEL_SOURCE = "label"
LONGEST_TYPE = 20
DISCOVERY = "discovery"


class HyperNodeController(Reconciler):
    """Updates `status.nodeCount`, and derives tiers of HyperNodes from the labels of nodes."""

    name = "hyperNode-controller"

    def __init__(
        self, random_suffix: Callable[[], str], *, namespace: str = SYSTEM_NAMESPACE, release: str = "volcano"
    ) -> None:
        super().__init__()
        self._suffix = random_suffix
        self._config_key = Key(namespace, f"{release}-controller-configmap")
        self.watches = (
            Watch(HYPER_NODE),
            Watch(NODE),
            Watch(CONFIG_MAP, namespace=namespace, fields=f"metadata.name={self._config_key.name}"),
        )

    def accepts(self, event: Event) -> bool:
        if event.kind != NODE or event.type is EventType.DELETED:
            return True
        known = self.indexer.get(NODE, key_of(event.object))
        # Heartbeats are irrelevant here.
        return (
            known is None
            or uid_of(known) != uid_of(event.object)
            or labels_of(known) != labels_of(event.object)
        )

    def keys(self, event: Event) -> Iterable[Hashable]:
        if event.kind == HYPER_NODE:
            return (key_of(event.object).name, DISCOVERY)
        if event.kind == CONFIG_MAP:
            return (DISCOVERY,)
        return (DISCOVERY, *(key_of(hyper_node).name for hyper_node in self.indexer.all(HYPER_NODE)))

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        if key == DISCOVERY:
            return Plan(list(self._discover()))
        hyper_node = self.indexer.get(HYPER_NODE, Key("", str(key)))
        if hyper_node is None or is_deleting(hyper_node):
            return NOTHING
        count = len(self._members(hyper_node))
        if (hyper_node.get("status") or {}).get("nodeCount", 0) == count:
            return NOTHING
        return Plan([Patch(HYPER_NODE, key_of(hyper_node), {"status": {"nodeCount": count}}, "status")])

    def _members(self, hyper_node: Manifest) -> set[str]:
        """The distinct names that the members of a HyperNode select."""
        names: set[str] = set()
        for member in (hyper_node.get("spec") or {}).get("members") or ():
            selector = member.get("selector") or {}
            if selector.get("exactMatch"):
                names.add(selector["exactMatch"].get("name", ""))
            elif selector.get("regexMatch"):
                names |= _matching(selector["regexMatch"].get("pattern", ""), self.indexer.all(NODE))
            elif any((selector.get("labelMatch") or {}).values()):  # an empty one selects nothing
                names |= _labelled(selector["labelMatch"], self.indexer.all(NODE))
        return names

    def _discover(self) -> Iterable[Operation]:
        config = self._label_config()
        if config is None:
            return
        existing = {
            key_of(h).name: h
            for h in self.indexer.all(HYPER_NODE)
            if labels_of(h).get(SOURCE_LABEL) == LABEL_SOURCE
        }
        wanted: dict[str, Manifest] = {}
        for kind, levels in config.items():
            wanted |= self._tiers(kind, levels, existing)
        for name, manifest in wanted.items():
            known = existing.get(name)
            if known is None:
                yield Create(HYPER_NODE, manifest, if_absent=True)
            elif known["spec"] != manifest["spec"]:
                yield Patch(HYPER_NODE, Key("", name), {"spec": manifest["spec"]})
        for name, known in existing.items():
            if name not in wanted and not is_deleting(known):
                yield Delete(HYPER_NODE, Key("", name), if_present=True)

    def _label_config(self) -> Mapping[str, list[str]] | None:
        """Type name → labels from narrowest to widest; None when discovery by label is off."""
        config_map = self.indexer.get(CONFIG_MAP, self._config_key)
        if config_map is None:
            return None
        try:
            config = load_yaml((config_map.get("data") or {}).get(CONFIG_KEY, "")).value or {}
            sources = [
                s for s in config.get("networkTopologyDiscovery") or () if s.get("source") == LABEL_SOURCE
            ]
            if not sources or not sources[0].get("enabled"):
                return None
            types = ((sources[0].get("config") or {}).get("networkTopologyTypes")) or {}
            return {name: levels for name, raw in types.items() if (levels := _levels(str(name), raw))}
        except (YamlError, AttributeError, KeyError, TypeError) as error:
            log.warning("discovery configuration rejected", config_map=self._config_key, reason=error)
            return None

    def _tiers(self, kind: str, levels: list[str], existing: Mapping[str, Manifest]) -> dict[str, Manifest]:
        """HyperNodes of one type: tier 1 groups nodes by the narrowest label, each further tier those below it."""
        wanted: dict[str, Manifest] = {}
        below: dict[str, list[tuple[str, Manifest]]] = {}
        for node in sorted(self.indexer.all(NODE), key=lambda n: key_of(n).name):
            value = labels_of(node).get(levels[0])
            if value:
                below.setdefault(value, []).append((key_of(node).name, node))
        member_type = "Node"
        for tier, label in enumerate(levels, start=1):
            above: dict[str, list[tuple[str, Manifest]]] = {}
            for value, members in below.items():
                name = self._name(kind, tier, label, value, existing, wanted)
                wanted[name] = _hyper_node(
                    name, tier, label, value, member_type, [member for member, _ in members]
                )
                wider = labels_of(members[0][1]).get(levels[tier]) if tier < len(levels) else None
                if wider:
                    above.setdefault(wider, []).append((name, members[0][1]))
            below, member_type = above, "HyperNode"
        return wanted

    def _name(
        self,
        kind: str,
        tier: int,
        label: str,
        value: str,
        existing: Mapping[str, Manifest],
        taken: Mapping[str, Any],
    ) -> str:
        prefix = f"hypernode-{re.sub('[^a-z0-9]+', '-', kind.lower())}-tier{tier}-"
        for name, known in existing.items():
            if name.startswith(prefix) and labels_of(known).get(label) == value and name not in taken:
                return name
        return prefix + self._suffix()


def _levels(name: str, raw: Iterable[Mapping[str, str]]) -> list[str]:
    """The labels of a topology type, narrowest first, without the host name; empty when the type is not usable."""
    labels = [level["nodeLabel"] for level in raw]
    if len(name) > LONGEST_TYPE or len(set(labels)) != len(labels):
        log.warning("topology type ignored", type=name, reason="name too long or duplicate label")
        return []
    return list(reversed(labels[:-1]))


def _matching(pattern: str, nodes: Iterable[Manifest]) -> set[str]:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return set()
    return {key_of(node).name for node in nodes if compiled.search(key_of(node).name)}


def _labelled(selector: Mapping[str, Any], nodes: Iterable[Manifest]) -> set[str]:
    try:
        wanted = from_object(selector)
    except (ApiError, ValueError) as error:
        log.warning("member selector rejected", reason=error)
        return set()
    return {key_of(node).name for node in nodes if wanted.matches(labels_of(node))}


def _hyper_node(
    name: str, tier: int, label: str, value: str, member_type: str, members: list[str]
) -> Manifest:
    return {
        "apiVersion": HYPER_NODE.api_version,
        "kind": HYPER_NODE.kind,
        "metadata": {"name": name, "labels": {label: value, SOURCE_LABEL: LABEL_SOURCE}},
        "spec": {
            "tier": tier,
            "tierName": label,
            "members": [
                {"type": member_type, "selector": {"exactMatch": {"name": member}}} for member in members
            ],
        },
    }

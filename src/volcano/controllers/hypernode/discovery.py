"""Discovery: creates, updates and deletes the HyperNodes of each enabled source."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from volcano.clock import Instant
from volcano.controllers.events import record_event
from volcano.controllers.hypernode.configuration import (
    LABEL_SOURCE,
    Discovery,
    LabelSource,
    UfmSource,
    parse_discovery,
)
from volcano.controllers.hypernode.discovered import SOURCE_LABEL, Discovered
from volcano.controllers.hypernode.label_source import LabelDiscovery
from volcano.controllers.hypernode.ufm_source import LINKS, hyper_nodes, poll
from volcano.kube.controller import NOTHING, Plan
from volcano.kube.indexer import Indexer
from volcano.kube.kinds import CONFIG_MAP, HYPER_NODE, NODE
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of, labels_of, uid_of
from volcano.kube.operations import Call, Concurrent, Create, Delete, Operation, Patch
from volcano.kube.workqueue import Backoff
from volcano.log import Log

log = Log("hypernode")

CONFIG_KEY = "volcano-controller.conf"
POLL_RETRIES = Backoff(first=1.0, longest=60.0)
COMPONENT = "hyperNode-controller"


@dataclass(frozen=True, slots=True)
class Poll(Call):
    """A poll of a UFM server."""

    ufm: UfmSource


@dataclass(slots=True)
class _PollState:
    """State of the polls of a UFM server."""

    asked: UfmSource | None = None
    asked_at: float = 0.0
    discovered: Sequence[Discovered] = ()
    answered: bool = False  # `found` is an answer
    due: float = 0.0  # the next one
    failure: str = ""
    failures: int = 0  # since the last answer


class DiscoveryPlanner:
    """Plans the writes of each source. A source is polled again only when its own configuration changed, or when its
    interval has passed."""

    def __init__(self, indexer: Indexer, config_key: Key, random_suffix: Callable[[], str]) -> None:
        self._indexer = indexer
        self._config_key = config_key
        self._labels = LabelDiscovery(random_suffix)
        self._poll = _PollState()
        self._parsed: tuple[str, Discovery] = ("", Discovery())
        self._reported: set[tuple[str, str]] = set()  # reports that were made: occasion and text or uid

    def config_map(self) -> Manifest | None:
        return self._indexer.get(CONFIG_MAP, self._config_key)

    def configuration(self) -> Discovery:
        """The configuration at present; empty without the ConfigMap or its key."""
        text = str(((self.config_map() or {}).get("data") or {}).get(CONFIG_KEY) or "")
        if text != self._parsed[0]:
            self._parsed = (text, parse_discovery(text, namespace=self._config_key.namespace))
            for problem in self._parsed[1].problems:
                log.warning("discovery configuration rejected", config_map=self._config_key, reason=problem)
        return self._parsed[1]

    def plan(self, source: str, now: Instant) -> Plan:
        """The writes for one source."""
        discovery = self.configuration()
        match discovery.sources.get(source):
            case LabelSource(types):
                existing = self._existing(source)
                nodes = self._indexer.all(NODE)
                discovered = self._labels.discover(types, nodes, existing, self._is_taken)
                return Plan(list(self._writes(source, discovered, now)))
            case UfmSource() as ufm:
                return self._plan_ufm(source, ufm, now)
            case _ if source in discovery.invalid:
                return NOTHING
        self._poll = _PollState() if source != LABEL_SOURCE else self._poll
        return Plan(list(self._report_disabled(source, now)))

    def _plan_ufm(self, source: str, ufm: UfmSource, now: Instant) -> Plan:
        state = self._poll
        if state.asked != ufm:
            state = self._poll = _PollState(asked=ufm)
        if now.monotonic >= state.due:
            state.asked_at = now.monotonic
            return Plan([Poll(CONFIG_MAP, self._config_key, partial(poll, ufm), ufm)])
        writes = list(self._writes(source, state.discovered, now)) if state.answered else []
        return Plan(writes, requeue_after=state.due - now.monotonic)

    def on_polled(self, asked: UfmSource, answer: Manifest) -> None:
        """Takes over the answer of a UFM server, unless the source was changed or disabled since."""
        state = self._poll
        if state.asked != asked:
            return
        discovered = hyper_nodes(answer[LINKS])
        log.info("UFM server polled", endpoint=asked.endpoint, hypernodes=len(discovered))
        due = state.asked_at + asked.interval
        self._poll = _PollState(asked, state.asked_at, discovered=discovered, answered=True, due=due)

    def on_poll_failed(self, asked: UfmSource, message: str, now: Instant) -> None:
        """Nothing is changed or deleted; the poll is repeated with back-off."""
        state = self._poll
        if state.asked != asked:
            return
        if state.failure != message:
            log.warning("UFM server could not be polled, retried with back-off", reason=message)
        state.failure = message
        state.due = now.monotonic + min(POLL_RETRIES.delay(state.failures), asked.interval)
        state.failures += 1

    def report(self, now: Instant) -> Iterator[Operation]:
        """Events about the ConfigMap: what is wrong with it, and why a poll failed."""
        config_map = self.config_map()
        if config_map is None:
            return
        occasion = str(config_map["metadata"].get("resourceVersion", ""))
        failure = [("DiscoveryFailed", self._poll.failure)] if self._poll.failure else []
        rejected = [("DiscoveryConfigRejected", problem) for problem in self.configuration().problems]
        for reason, text in (*rejected, *failure):
            if self._is_new(occasion, text):
                yield record_event(
                    config_map,
                    CONFIG_MAP,
                    reason,
                    text,
                    now,
                    source=COMPONENT,
                    warning=True,
                    occasion=occasion,
                )

    def _writes(
        self, source: str, discovered: Iterable[Discovered], now: Instant
    ) -> Iterator[Operation | Concurrent]:
        """Writes that turn the HyperNodes of a source into those that were found; a failed one is retried."""
        existing = self._existing(source)
        wanted = {item.name: item.manifest(source) for item in discovered}
        writes: list[Operation] = []
        for name, manifest in wanted.items():
            known = existing.get(name)
            if known is None and self._is_taken(name):
                yield from self._report_foreign(source, name, now)
            elif known is None:
                writes.append(Create(HYPER_NODE, manifest, if_absent=True))
            elif not is_deleting(known) and (change := _difference(known, manifest)):
                writes.append(Patch(HYPER_NODE, Key("", name), change))
        for name, known in existing.items():
            if name not in wanted and not is_deleting(known):
                writes.append(Delete(HYPER_NODE, Key("", name), if_present=True))
        if writes:
            yield Concurrent(tuple(writes))

    def _existing(self, source: str) -> dict[str, Manifest]:
        return {
            key_of(h).name: h
            for h in self._indexer.all(HYPER_NODE)
            if labels_of(h).get(SOURCE_LABEL) == source
        }

    def _is_taken(self, name: str) -> bool:
        return self._indexer.get(HYPER_NODE, Key("", name)) is not None

    def _report_foreign(self, source: str, name: str, now: Instant) -> Iterator[Operation]:
        taken = self._indexer.get(HYPER_NODE, Key("", name))
        if taken is not None and self._is_new(uid_of(taken), source):
            text = (
                f"discovery source {source} needs this name for a HyperNode of its own; delete this one, or "
                f"give it to the source: kubectl label hn {name} {SOURCE_LABEL}={source}"
            )
            yield record_event(
                taken, HYPER_NODE, "NameTaken", text, now, source=COMPONENT, warning=True, occasion=""
            )

    def _report_disabled(self, source: str, now: Instant) -> Iterator[Operation]:
        config_map = self.config_map() or {"metadata": {}}
        occasion = str(config_map["metadata"].get("resourceVersion", ""))
        text = (
            f"discovery source {source} is disabled: this HyperNode stays as it is and is not updated any more; "
            f"to delete all of the source: kubectl delete hn -l {SOURCE_LABEL}={source}"
        )
        for left in self._existing(source).values():
            if not is_deleting(left) and self._is_new(f"disabled {occasion}", uid_of(left)):
                yield record_event(
                    left, HYPER_NODE, "DiscoveryDisabled", text, now, source=COMPONENT, occasion=occasion
                )

    def _is_new(self, occasion: str, text: str) -> bool:
        """Whether a report was not made yet; the event's name depends on the occasion, so that a new process does not
        repeat it either."""
        if (occasion, text) in self._reported:
            return False
        if len(self._reported) >= 10_000:
            self._reported.clear()
        self._reported.add((occasion, text))
        return True


def _difference(known: Manifest, wanted: Manifest) -> Manifest:
    """A merge patch for the spec and labels of a HyperNode; empty when nothing differs."""
    patch: dict[str, Manifest] = {}
    if known.get("spec") != wanted["spec"]:
        patch["spec"] = {**dict.fromkeys(known.get("spec") or {}), **wanted["spec"]}
    labels = {key: value for key, value in labels_of(wanted).items() if labels_of(known).get(key) != value}
    if labels:
        patch["metadata"] = {"labels": labels}
    return patch

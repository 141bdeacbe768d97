"""Whatever is written, in whatever order: the registry agrees with a naive model, and replays with its lists."""

from collections.abc import Coroutine
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.store import Store
from volcano.kube.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import EventType, Query

NAMES = st.sampled_from(["a", "b", "c", "d"])
TIERS = st.sampled_from(["front", "back"])
WRITES = st.lists(
    st.tuples(st.sampled_from(["create", "update", "patch", "delete", "stale"]), NAMES, TIERS), max_size=40
)
# Every selection a watcher may have, and the tiers it selects.
SELECTIONS = {
    "": {"front", "back"},
    "tier=front": {"front"},
    "tier!=front": {"back"},
    "tier=gone": set[str](),
}


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never waits for anything, as a simulator does."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("the coroutine suspended")


def labelled(name: str, tier: str) -> Manifest:
    manifest = config_map(name)
    manifest["metadata"]["labels"] = {"tier": tier}
    return manifest


class Model:
    """What should be there: names and tiers; what each write should answer."""

    def __init__(self, client: DirectClient) -> None:
        self.client = client
        self.tiers: dict[str, str] = {}

    def write(self, verb: str, name: str, tier: str) -> None:
        """Does one write, and checks that it succeeds exactly when it should."""
        expected: type[ApiError] | None = {
            "create": AlreadyExists if name in self.tiers else None,
            "stale": Conflict if name in self.tiers else NotFound,
        }.get(verb, None if name in self.tiers else NotFound)
        if expected is not None:
            with pytest.raises(expected):
                drive(self._send(verb, name, tier))
            return
        drive(self._send(verb, name, tier))
        if verb == "delete":
            del self.tiers[name]
        else:
            self.tiers[name] = tier

    def _send(self, verb: str, name: str, tier: str) -> Coroutine[Any, Any, Any]:
        key, manifest = Key("default", name), labelled(name, tier)
        match verb:
            case "create":
                return self.client.create(CONFIG_MAP, manifest)
            case "update":
                return self.client.update(CONFIG_MAP, manifest)
            case "patch":
                return self.client.patch(CONFIG_MAP, key, {"metadata": {"labels": {"tier": tier}}})
            case "delete":
                return self.client.delete(CONFIG_MAP, key)
        manifest["metadata"]["resourceVersion"] = "1"
        return self.client.update(CONFIG_MAP, manifest)


def fresh() -> tuple[Registry, Model]:
    made = registry(Store())
    client = DirectClient(made)
    drive(client.create(NAMESPACE, namespace("default")))
    return made, Model(client)


def replayed(start: dict[str, str], made: Registry, since: str, labels: str) -> dict[str, str]:
    """What a watcher believes is there, who knew `start` and heard everything since."""
    known = dict(start)
    version = int(since)
    for piece in made.open_watcher(CONFIG_MAP, Query(resource_version=since, labels=labels)).take(100_000):
        manifest = orjson.loads(piece.data)
        name, tier = manifest["metadata"]["name"], manifest["metadata"]["labels"]["tier"]
        assert int(manifest["metadata"]["resourceVersion"]) > version, "versions never go back"
        version = int(manifest["metadata"]["resourceVersion"])
        match piece.type:
            case EventType.ADDED:
                assert name not in known
                known[name] = tier
            case EventType.MODIFIED:
                assert name in known
                known[name] = tier
            case EventType.DELETED:
                del known[name]
    return known


@given(WRITES, WRITES)
@settings(max_examples=60, deadline=None)
def test_lists_and_replays_agree_with_the_model(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    made, model = fresh()
    for write in before:
        model.write(*write)
    then, since = dict(model.tiers), drive(model.client.list(CONFIG_MAP)).resource_version
    for write in after:
        model.write(*write)
    for labels, tiers in SELECTIONS.items():
        listing = drive(model.client.list(CONFIG_MAP, Query(labels=labels)))
        present = {item["metadata"]["name"]: item["metadata"]["labels"]["tier"] for item in listing.items}
        assert present == {name: tier for name, tier in model.tiers.items() if tier in tiers}
        assert list(present) == sorted(present)
        start = {name: tier for name, tier in then.items() if tier in tiers}
        assert replayed(start, made, since, labels) == present
        if since != "0":
            past = Query(labels=labels, resource_version=since, resource_version_match="Exact")
            names = [item["metadata"]["name"] for item in drive(model.client.list(CONFIG_MAP, past)).items]
            assert names == sorted(start)


@given(WRITES, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_pages_read_between_writes_show_the_first_moment(
    writes: list[tuple[str, str, str]], limit: int
) -> None:
    _, model = fresh()
    for name in ("a", "b", "c", "d"):
        model.write("create", name, "front")
    page = drive(model.client.list(CONFIG_MAP, Query(limit=limit)))
    names = [item["metadata"]["name"] for item in page.items]
    for write in writes:
        model.write(*write)
        if page.continue_token:
            query = Query(limit=limit, continue_token=page.continue_token)
            page = drive(model.client.list(CONFIG_MAP, query))
            names += [item["metadata"]["name"] for item in page.items]
    assert names == ["a", "b", "c", "d"][: len(names)]
    assert page.continue_token or len(names) == 4

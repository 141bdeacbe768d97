"""Which kinds are served, and in which version."""

import pytest

from tests.apiserver.registries import registry
from tests.apiserver.registry.test_registry import NEW_WIDGET, WIDGET, widget, with_widgets
from volcano.apiserver.registry.event_conversion import from_core_event, to_core_event
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.strategies import STORED_AS, built_in_kinds
from volcano.apiserver.storage.store import Store
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import BUILT_IN, CRD, EVENT, EVENTS_EVENT, POD
from volcano.kube.api.manifest import Key


def test_every_built_in_kind_is_found_by_path_and_by_manifest() -> None:
    table = KindTable(built_in_kinds())
    for kind in BUILT_IN:
        by_path = table.find(kind.group, kind.version, kind.plural)
        assert by_path is not None
        assert by_path.kind == kind
        assert table.by_manifest(kind.api_version, kind.kind) is by_path
    assert table.find("", "v1", "unicorns") is None
    assert table.by_manifest("v1", "Unicorn") is None


def test_kinds_that_share_their_objects_are_stored_once() -> None:
    table = KindTable(built_in_kinds())
    stored = [served.storage.resource for served in table.storages()]
    assert len(stored) == len(set(stored)) == len(BUILT_IN) - len(STORED_AS)
    events = table.stored("events")
    assert events is not None
    assert events.kind == EVENT
    assert table.served(EVENTS_EVENT).storage == EVENT


async def test_a_crd_adds_its_versions_and_takes_them_away() -> None:
    made = registry()
    before = made.kinds.generation
    client = await with_widgets(made)
    assert made.kinds.generation > before
    assert made.kinds.served(NEW_WIDGET).storage.version == "v1"
    stored = made.kinds.stored("widgets.example.com")
    assert stored is not None
    assert stored.kind.version == "v1"

    generation = made.kinds.generation
    await client.patch(CRD, Key("", "widgets.example.com"), {"metadata": {"labels": {"a": "b"}}})
    assert made.kinds.generation == generation, "nothing about the kind has changed"

    crd = await client.get(CRD, Key("", "widgets.example.com"))
    crd["spec"]["versions"][1]["served"] = False
    await client.update(CRD, crd)
    with pytest.raises(NotFound):
        made.kinds.served(NEW_WIDGET)
    assert made.kinds.served(WIDGET).kind.kind == "Widget"


async def test_objects_stored_under_an_older_version_are_served_in_the_newer() -> None:
    made = registry()
    client = await with_widgets(made)
    await client.create(WIDGET, widget(size=1))
    crd = await client.get(CRD, Key("", "widgets.example.com"))
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    crd["spec"]["versions"][0]["served"] = False
    await client.update(CRD, crd)
    found = await client.get(NEW_WIDGET, Key("default", "w"))
    assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"size": 1})


async def test_a_table_made_over_a_full_store_serves_its_crds() -> None:
    made = registry()
    await with_widgets(made)
    again = registry(made.store)
    assert again.kinds.served(WIDGET).crd == "widgets.example.com"
    assert registry(Store()).kinds.find("example.com", "v1", "widgets") is None


def test_events_are_rewritten_there_and_back() -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"name": "web"},
        "note": "hello",
        "reportingController": "me",
        "deprecatedCount": 3,
        "eventTime": "2027-01-15T08:00:00.000000Z",
    }
    core = dict(event)
    to_core_event(core)
    assert core["involvedObject"] == {"name": "web"}
    assert (core["apiVersion"], core["message"], core["reportingComponent"], core["count"]) == (
        "v1",
        "hello",
        "me",
        3,
    )
    from_core_event(core)
    assert core == event


def test_looking_for_a_kind_ignores_what_is_not_its_address() -> None:
    table = KindTable(built_in_kinds())
    assert table.served(type(POD)("", "v1", "Pod", "pods")).kind is POD

"""The indexer ignores outdated events, and finds objects under their current index values."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.api.kinds import JOB, POD, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.kube.informers.indexer import Indexer


def pod(name: str, node: str, version: int, uid: str = "u") -> Manifest:
    metadata = {"name": name, "namespace": "default", "uid": f"{uid}-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def by_node() -> Indexer:
    index = Indexer()
    index.add_index(POD, "node", lambda each: (each["spec"]["nodeName"],))
    return index


def put(index: Indexer, manifest: Manifest, type_: EventType = EventType.MODIFIED) -> bool:
    return index.apply(Event(type_, POD, manifest))


def names(index: Indexer, node: str) -> list[str]:
    return [each["metadata"]["name"] for each in index.by_index(POD, "node", node)]


def test_an_object_that_moves_is_found_at_its_new_place_only() -> None:
    index = by_node()
    put(index, pod("a", "", 1))
    put(index, pod("a", "n1", 2))
    assert (names(index, ""), names(index, "n1")) == ([], ["a"])


def test_objects_stay_in_the_order_they_were_first_seen() -> None:
    index = by_node()
    for version, name in enumerate(["b", "a"], start=1):
        put(index, pod(name, "n1", version))
    put(index, pod("b", "n1", 3))
    assert names(index, "n1") == ["b", "a"]


def test_the_watch_event_of_an_applied_write_is_outdated() -> None:
    index, answer = by_node(), pod("a", "n1", 1)
    assert put(index, answer)
    assert not put(index, answer)
    assert not put(index, pod("a", "n1", 1))


def test_a_deleted_object_is_found_nowhere_and_does_not_come_back() -> None:
    index, last = by_node(), pod("a", "n1", 2)
    put(index, last)
    assert put(index, last, EventType.DELETED)
    assert not put(index, pod("a", "n1", 1))
    assert names(index, "n1") == []
    assert index.get(POD, Key("default", "a")) is None


def test_a_namesake_takes_the_place_of_its_predecessor() -> None:
    index = by_node()
    put(index, pod("a", "n1", 1, uid="old"))
    put(index, pod("a", "n2", 2, uid="new"))
    assert (names(index, "n1"), names(index, "n2")) == ([], ["a"])


def by_digits() -> Indexer:
    """Objects under each digit of their node's name, however often it is in there."""
    index = Indexer()
    index.add_index(POD, "node", lambda each: each["spec"]["nodeName"])
    return index


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "12", "22", "-", "?"]))))
def test_looking_often_or_seldom_finds_what_going_through_everything_finds(
    steps: list[tuple[str, str]],
) -> None:
    index = by_digits()
    there: dict[str, Manifest] = {}

    def under(digit: str) -> list[str]:
        return sorted(name for name, each in there.items() if digit in each["spec"]["nodeName"])

    for version, (name, node) in enumerate(steps, start=1):
        if node == "?":  # a read in between
            assert sorted(names(index, "1")) == under("1")
        elif node != "-":
            uid = there[name]["metadata"]["uid"][:-2] if name in there else str(version)
            there[name] = pod(name, node, version, uid)
            put(index, there[name])
        elif name in there:
            put(index, there.pop(name), EventType.DELETED)
    assert [sorted(names(index, digit)) for digit in "12"] == [under(digit) for digit in "12"]


LOOKS: dict[str, Callable[[Indexer], object]] = {
    "get": lambda index: [index.get(POD, Key("default", name)) for name in "ab"],
    "all": lambda index: sorted(map(str, index.all(POD))),
    "count": lambda index: index.count(POD),
    "find": lambda index: sorted(names(index, "1")),
}
# Which object, with which uid and version, on which node; the event; and how it was applied or read
# meanwhile.
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.integers(1, 6),
        st.sampled_from("12"),
        st.sampled_from([EventType.ADDED, EventType.MODIFIED, EventType.DELETED]),
        st.sampled_from(["aside", "at once", *LOOKS]),
    ),
    max_size=12,
)


@given(HAPPENINGS)
def test_whatever_is_put_aside_looking_shows_the_same_as_if_it_had_been_taken_in(
    happenings: list[tuple[str, str, int, str, EventType, str]],
) -> None:
    lazy, eager = by_node(), by_node()
    for name, uid, version, node, type_, how in happenings:
        if how in LOOKS:
            assert LOOKS[how](lazy) == LOOKS[how](eager)
            continue
        event = Event(type_, POD, pod(name, node, version, uid))
        eager.apply(event)
        if how == "aside" and type_ is not EventType.DELETED:
            lazy.defer(event, Key("default", name))
        else:
            lazy.apply(event)
    for look in LOOKS.values():
        assert look(lazy) == look(eager)


def test_an_object_that_cannot_be_filed_hides_no_other() -> None:
    index = by_node()
    put(index, {"metadata": {"name": "odd", "namespace": "default"}, "spec": {}})
    put(index, pod("a", "n1", 1))
    assert names(index, "n1") == ["a"]


def test_kinds_are_equal_when_all_of_them_is() -> None:
    twin = Kind(POD.group, POD.version, POD.kind, POD.plural, *map(POD.__getattribute__, MORE))
    assert twin == POD
    assert hash(twin) == hash(POD)
    assert Kind("", "v1", "Pod", "pods", short_names=("other",)) != POD
    assert POD != JOB
    assert POD != "Pod"


MORE = ("namespaced", "short_names", "categories", "subresources", "verbs")

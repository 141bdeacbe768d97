"""The index takes only news, and finds objects where they are now."""

from volcano.kube.client import Event, EventType
from volcano.kube.index import Index
from volcano.kube.kinds import JOB, POD, Kind
from volcano.kube.manifest import Key, Manifest


def pod(name: str, node: str, version: int, uid: str = "u") -> Manifest:
    metadata = {"name": name, "namespace": "default", "uid": f"{uid}-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def by_node() -> Index:
    index = Index()
    index.facet(POD, "node", lambda each: (each["spec"]["nodeName"],))
    return index


def put(index: Index, manifest: Manifest, type_: EventType = EventType.MODIFIED) -> bool:
    return index.apply(Event(type_, POD, manifest))


def names(index: Index, node: str) -> list[str]:
    return [each["metadata"]["name"] for each in index.find(POD, "node", node)]


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


def test_what_the_answer_to_a_write_told_is_no_news_in_the_watch() -> None:
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


def test_kinds_are_equal_when_all_of_them_is() -> None:
    twin = Kind(POD.group, POD.version, POD.kind, POD.plural, *map(POD.__getattribute__, MORE))
    assert twin == POD
    assert hash(twin) == hash(POD)
    assert Kind("", "v1", "Pod", "pods", short_names=("other",)) != POD
    assert POD != JOB
    assert POD != "Pod"


MORE = ("namespaced", "short_names", "categories", "subresources", "verbs")

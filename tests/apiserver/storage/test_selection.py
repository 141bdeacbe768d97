"""Selections: compiled tests agree with the selectors they come from."""

import orjson
import pytest

from tests.apiserver.registries import pod
from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.selectable_fields import BUILT_IN, reader_of, selectable
from volcano.apiserver.storage.selection import select
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import EVENTS_EVENT, NAMESPACE, NODE, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.selectors import parse_labels

LABELS = [{}, {"a": "1"}, {"a": "5"}, {"a": "x", "b": ""}, {"b": "2"}]
SELECTORS = ["a", "!a", "a=1", "a!=1", "a in (1,x)", "a notin (1,x)", "a>3", "a<3", "b=", "a,b", "a=1,b!=2"]


def record(labels: dict[str, str], manifest: Manifest | None = None) -> StoredObject:
    manifest = manifest or pod()
    fields = reader_of("pods")(manifest)
    return StoredObject(Key("default", "web"), 1, "u", orjson.dumps(manifest), labels, fields)


@pytest.mark.parametrize("text", SELECTORS)
def test_labels_are_matched_as_the_selector_does(text: str) -> None:
    selection, selector = select(POD, POD, "", text, ""), parse_labels(text)
    assert [selection.matches(record(labels)) for labels in LABELS] == [
        selector.matches(labels) for labels in LABELS
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        pod(),
        pod(nodeName="n1", hostNetwork=True, restartPolicy="Never", schedulerName="volcano"),
        {**pod(), "status": {"phase": "Running", "podIP": "10.0.0.1", "nominatedNodeName": "n2"}},
        {"metadata": {}, "spec": None, "status": None},
    ],
)
def test_reading_a_pod_at_once_says_what_reading_it_field_by_field_does(manifest: Manifest) -> None:
    readers = BUILT_IN["pods"]
    assert selectable("pods") == tuple(readers)
    assert reader_of("pods")(manifest) == tuple(read(manifest) for read in readers.values())


def test_a_selection_of_one_object_says_so() -> None:
    assert select(POD, POD, "default", "", "metadata.name=web").only_key() == Key("default", "web")
    assert select(POD, POD, "", "", "metadata.name=web").only_key() is None
    assert select(NODE, NODE, "", "", "metadata.name=n1").only_key() == Key("", "n1")
    assert select(POD, POD, "default", "", "metadata.name!=web").only_key() is None


def test_other_names_of_fields_are_understood() -> None:
    bound = record({}, pod(nodeName="n1"))
    assert select(POD, POD, "", "", "spec.host=n1").matches(bound)
    assert select(EVENTS_EVENT, EVENTS_EVENT, "", "", "").everything


def test_cluster_scoped_kinds_have_no_namespace_to_select_by() -> None:
    with pytest.raises(BadRequest, match="field label not supported"):
        select(NAMESPACE, NAMESPACE, "", "", "metadata.namespace=x")

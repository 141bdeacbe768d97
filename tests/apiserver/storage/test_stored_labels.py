"""Labels kept as JSON are found, counted and compared as in a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from volcano.apiserver.storage.stored_labels import MANY, EncodedLabels, stored_labels

TEXTS = st.text(alphabet='ab"\\:,{}/é ', max_size=6)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=8)


@given(LABELS, TEXTS)
def test_encoded_labels_are_a_mapping_like_a_dictionary(labels: dict[str, str], other: str) -> None:
    encoded = EncodedLabels(labels)
    assert dict(encoded) == labels == encoded
    assert len(encoded) == len(labels)
    for key in (*labels, *labels.values(), other):
        assert encoded.get(key) == labels.get(key)
        assert (key in encoded) == (key in labels)


@given(st.integers(0, 2 * MANY))
def test_equal_labels_of_two_versions_are_kept_once(count: int) -> None:
    labels = {f"label-{number}": "x" for number in range(count)}
    first = stored_labels(labels)
    assert stored_labels(dict(labels), first) is first
    changed = stored_labels({**labels, "label-0": "y"}, first)
    assert changed is not first
    assert changed["label-0"] == "y"

"""What is written as YAML is read as the same values, by our reader and by PyYAML's."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volcano.base.yaml_dumper import dump
from volcano.base.yaml_loader import load_documents

TEXTS = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=12),
    st.text(alphabet="0123456789.eExob_+-yYnN~", max_size=6),
    st.sampled_from(
        ["08", "1e3", "0o7", ".5", "5.", "y", "No", "null", "~", "", "<<", "0x1F", "1_000", "=", ".inf"]
    ),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.none(), st.integers(-(2**53), 2**53), st.floats(-1e6, 1e6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@given(VALUES)
def test_every_value_is_read_as_it_was(value: Any) -> None:
    (document,) = load_documents(dump({"value": value}))
    assert document.value == {"value": value}
    assert yaml.safe_load(dump({"value": value})) == {"value": value}


@pytest.mark.parametrize("text", ["08", "1e3", "0o17", "y", "N"])
def test_texts_that_kubectl_takes_for_something_else_are_quoted(text: str) -> None:
    assert dump({"label": text}) == f"label: '{text}'\n"


def test_plain_texts_stay_plain() -> None:
    assert dump({"name": "train-1", "image": "python:3.11", "cpu": "500m"}) == (
        "name: train-1\nimage: python:3.11\ncpu: 500m\n"
    )

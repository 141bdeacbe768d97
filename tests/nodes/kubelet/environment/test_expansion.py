"""References in commands and values, and the files variables may be read from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.nodes.kubelet.environment.env_files import BadEnvFile, env_file_value
from volcano.nodes.kubelet.environment.expansion import expand, unknown_names

KNOWN = {"A": "one", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("$(A)-$(A)", "one-one", id="known"),
        pytest.param("$(C)", "$(C)", id="unknown names stay"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$$$(A)", "$one", id="escaped dollar before a reference"),
        pytest.param("$(A", "$(A", id="never closed"),
        pytest.param("$A ${A} 5$", "$A ${A} 5$", id="the shell's own syntax is the shell's"),
        pytest.param("$(B)", "$(A)", id="values are not expanded again"),
        pytest.param("$(EMPTY)x", "x", id="empty"),
        pytest.param("$()", "$()", id="no name"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, KNOWN) == expected


def test_the_first_mapping_that_has_a_name_decides() -> None:
    assert expand("$(A) $(X)", {"A": "mine"}, {"A": "theirs", "X": "x"}) == "mine x"


@given(st.text(alphabet="$()AB x"))
def test_no_text_breaks_it_and_text_without_dollars_is_kept(text: str) -> None:
    expanded = expand(text, KNOWN)
    if "$" not in text:
        assert expanded == text
    assert len(unknown_names(text, KNOWN)) <= text.count("$(")


def test_an_environment_file_gives_quoted_values() -> None:
    text = "# made by init\n A='1' # first\n\nB='two\nlines'\nC= 'no'\nD=''\n"
    assert [env_file_value(text, key) for key in "ABCDE"] == ["1", "two\nlines", "", "", ""]


@pytest.mark.parametrize("text", ["A", "A=1", "A ='1'", "A='1", "A='1' x", "='1'"])
def test_a_malformed_environment_file_is_rejected(text: str) -> None:
    with pytest.raises(BadEnvFile, match="line 1"):
        env_file_value(text, "A")

"""Dotenv files are read as users write them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.cli.errors import UsageError
from volcano.cli.job.env_file import parse_env_file, read_env_file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A=b\n", {"A": "b"}, id="plain"),
        pytest.param("A = b c  # note\nB=x#y", {"A": "b c", "B": "x#y"}, id="spaces and comments"),
        pytest.param("\n# all\n  \nexport A=1\r\nB=2", {"A": "1", "B": "2"}, id="blank lines and export"),
        pytest.param("A='$X \"y\" # z'\n", {"A": '$X "y" # z'}, id="single quotes are literal"),
        pytest.param('A="a\\nb \\"c\\" \\\\" # x', {"A": 'a\nb "c" \\'}, id="escapes in double quotes"),
        pytest.param('A="one\ntwo"\nB=1', {"A": "one\ntwo", "B": "1"}, id="several lines"),
        pytest.param("A=\nB=''\nC=#x\n", {"A": "", "B": "", "C": ""}, id="empty values"),
        pytest.param("A=1\nA=2", {"A": "2"}, id="the last line wins"),
        pytest.param("A=b=c", {"A": "b=c"}, id="equals signs in values"),
        pytest.param("", {}, id="an empty file"),
    ],
)
def test_values_are_read(text: str, expected: dict[str, str]) -> None:
    assert parse_env_file(text, "f") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nnonsense\n", r"f:2: 'nonsense' must be NAME=value"),
        ("=1", r"f:1: '=1' must be NAME=value"),
        ("1A=1", r"must be NAME=value"),
        ('A=1\n\nB="open\n', r"f:3: B: the closing \" is missing"),
        ("A='x' y", r"f:1: A: there is text after the closing '"),
    ],
)
def test_mistakes_are_reported_with_their_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_env_file(text, "f")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--env-file: .*/none: No such file"):
        read_env_file(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"A=\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_env_file(str(tmp_path / "binary"))


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True), st.text(st.characters(exclude_characters="\r"))
    )
)
def test_quoted_values_survive(variables: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"')

    text = "".join(f'{name}="{quoted(value)}"\n' for name, value in variables.items())
    assert parse_env_file(text, "f") == variables

"""Manifest files as people write them: what is in them, and where they are wrong."""

import io
import json
import sys
from pathlib import Path

import pytest

from volcano.embedded.files import FileError, read_files

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def written(directory: Path, text: str | bytes, name: str = "file.yaml") -> str:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_every_object_of_a_file_comes_with_the_line_it_begins_at(tmp_path: Path) -> None:
    path = written(tmp_path, f"# two\n{HEAD}---\n---\n{HEAD.replace('name: c', 'name: d')}")
    found = read_files([path])
    assert [(document.source, document.title) for document in found] == [
        (f"{path}:2", "ConfigMap c"),
        (f"{path}:7", "ConfigMap d"),
    ]


def test_a_list_stands_for_its_items_and_a_directory_for_its_files(tmp_path: Path) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "i"}}
    written(tmp_path, json.dumps({"apiVersion": "v1", "kind": "List", "items": [item, item]}), "b.json")
    written(tmp_path, b"\xef\xbb\xbf" + HEAD.encode(), "a.yml")
    written(tmp_path, "not looked at", "notes.txt")
    assert [document.manifest["metadata"]["name"] for document in read_files([str(tmp_path)])] == [
        "c",
        "i",
        "i",
    ]


def test_a_dash_stands_for_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(HEAD.encode())))
    assert [document.source for document in read_files(["-"])] == ["standard input:1"]


def test_values_are_what_a_server_makes_of_the_same_text(tmp_path: Path) -> None:
    data = "data:\n  1: one\n  true: yes-man\n  day: 2024-01-01\n  time: 12:30:00\n  mode: 0644\n"
    [document] = read_files([written(tmp_path, HEAD + data)])
    assert document.manifest["data"] == {
        "1": "one", "true": "yes-man", "day": "2024-01-01", "time": "12:30:00", "mode": 0o644,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(HEAD + "data: {x: !!binary aGk=}\n", "has no JSON form", id="bytes"),
        pytest.param(HEAD + "data: !!set {a, b}\n", "have no JSON form", id="a set"),
        pytest.param(HEAD + "data: &a {x: *a}\n", "not valid YAML", id="a value inside itself"),
        pytest.param(HEAD + "data: {x: .nan}\n", "finite", id="no number"),
        pytest.param(HEAD + "data: {x: 99999999999999999999999}\n", "64 bits", id="too large a number"),
        pytest.param(HEAD + 'data: {x: "\\ud800"}\n', "not valid YAML", id="half a character"),
        pytest.param(HEAD + "metadata: {name: d}\n", "already set", id="a field twice"),
        pytest.param(HEAD + "\tdata: x\n", "not valid YAML", id="a tab"),
        pytest.param(b"\xff\xfe\x00", "not valid YAML", id="no text"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: 5\n", "must be a list of objects", id="a list of none"
        ),
        pytest.param("just words\n", "an object with apiVersion", id="no object"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(text: str | bytes, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FileError) as refused:
        read_files([path])
    assert str(refused.value).startswith(path)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("path", "why"), [("", "no such file"), ("missing.yaml", "missing.yaml: no such file")]
)
def test_a_file_that_is_not_there_is_named(path: str, why: str) -> None:
    with pytest.raises(FileError, match=why):
        read_files([path])

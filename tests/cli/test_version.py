"""vcctl version: lines as Volcano prints them, and the revision if it is known."""

import json
import subprocess
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.cli.conftest import Vcctl
from volcano import __version__
from volcano.cli.version import build_record, checked_out, installed_from


def test_the_version_has_the_references_lines(run_command: Vcctl) -> None:
    result = run_command("version")
    assert result.code == 0
    assert [line.partition(":")[0] for line in result.lines] == [
        "API Version",
        "Version",
        "Git SHA",
        "Built At",
        "Python Version",
        "Python OS/Arch",
    ]
    assert f"Version: {__version__}" in result.lines
    assert "API Version: v1alpha1" in result.lines


def installed(folder: Path, origin: str | None) -> Distribution:
    metadata = folder / "volcano_py-1.dist-info"
    metadata.mkdir()
    if origin is not None:
        (metadata / "direct_url.json").write_text(origin)
    return Distribution.at(metadata)


@pytest.mark.parametrize(
    ("origin", "revision"),
    [
        pytest.param(json.dumps({"vcs_info": {"vcs": "git", "commit_id": "abc"}}), "abc", id="a repository"),
        pytest.param(json.dumps({"dir_info": {"editable": True}}), "", id="a folder"),
        pytest.param(json.dumps(["?"]), "", id="something else"),
        pytest.param("{", "", id="no JSON"),
        pytest.param(None, "", id="an index of packages"),
    ],
)
def test_an_installation_knows_the_repository_it_came_from(
    origin: str | None, revision: str, tmp_path: Path
) -> None:
    assert installed_from([installed(tmp_path, origin)]) == revision


def test_a_working_tree_knows_its_revision(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *author, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert checked_out(tmp_path) == ""
    git("init", "-q")
    assert checked_out(tmp_path) == ""  # nothing is committed yet
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    assert checked_out(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("2")
    assert checked_out(tmp_path) == git("rev-parse", "HEAD") + "-dirty"


@pytest.mark.parametrize(
    ("content", "record"),
    [
        pytest.param('{"commit": "abc", "builtAt": "2026-11-17T00:00:00Z"}', True, id="a built wheel"),
        pytest.param("[]", False, id="something else"),
        pytest.param("{", False, id="no JSON"),
        pytest.param(None, False, id="a working tree"),
    ],
)
def test_a_wheel_knows_the_commit_and_time_of_its_build(
    content: str | None, record: bool, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "build.json").write_text(content)
    found = build_record(tmp_path)
    assert found == ({"commit": "abc", "builtAt": "2026-11-17T00:00:00Z"} if record else {})

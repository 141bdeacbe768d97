"""Fragments of the changelog have a known category and are gathered by towncrier."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["towncrier"]
CATEGORIES = {kind["directory"] for kind in CONFIGURATION["type"]}
FRAGMENTS = sorted((TOP / CONFIGURATION["directory"]).glob("*.md"))


def test_every_fragment_has_a_topic_and_a_category() -> None:
    wrong = [
        path.name
        for path in FRAGMENTS
        if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(CATEGORIES)})\.md", path.name)
    ]
    assert wrong == []


def test_every_fragment_is_a_list() -> None:
    wrong = [path.name for path in FRAGMENTS if not re.fullmatch(r"(- \S.*\n(  \S.*\n)*)+", path.read_text())]
    assert wrong == []


def test_a_release_gathers_every_fragment() -> None:
    command = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--draft",
        "--version",
        "9.9.9",
        "--date",
        "2030-01-01",
    ]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    assert "## 9.9.9 (2030-01-01)" in done.stdout
    for path in FRAGMENTS:
        assert path.read_text().strip() in done.stdout, path.name


def test_the_changelog_has_the_place_where_releases_are_inserted() -> None:
    assert CONFIGURATION["start_string"] in (TOP / CONFIGURATION["filename"]).read_text()

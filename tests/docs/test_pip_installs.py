"""Each `pip install` of this project in a document or message names its distribution and one of its extras."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALL = re.compile(r"pip3? install [^\n`]*?['\"]?(volcano[\w.-]*)(?:\[([\w,-]+)\])?")


def installs() -> list[tuple[str, str, str]]:
    """File, distribution and extras of each `pip install`; a wheel's file name is not one."""
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    return [
        (str(path.relative_to(ROOT)), found[1], found[2] or "")
        for path in paths
        for found in INSTALL.finditer(path.read_text())
        if not found[1].startswith("volcano_py-")
    ]


def test_printed_commands_install_this_distribution() -> None:
    printed = installs()
    assert printed
    assert [each for each in printed if each[1] != PROJECT["name"]] == []


def test_printed_extras_exist() -> None:
    extras = PROJECT["optional-dependencies"]
    assert [
        each for each in installs() for extra in each[2].split(",") if extra and extra not in extras
    ] == []

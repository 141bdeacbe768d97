"""Modules that moved are named by their new paths everywhere but in the decision that lists both."""

import re
from collections.abc import Iterator
from pathlib import Path

import volcano

TOP = Path(__file__).parents[2]
SOURCE = Path(volcano.__file__).parent
DECISION = TOP / "docs" / "decisions" / "0059-services-and-views.md"
LOG_FILE = "volcano.log"  # of a cluster
PLACES = ("src", "tests", "docs", "bench", "tools", "examples", "Makefile", "pyproject.toml", "README.md")
SUFFIXES = {".py", ".md", ".toml", ".sh", ""}
ROW = re.compile(r"^\| `volcano\.?([\w.]*)` \| `volcano\.?([\w.]*)` \| (.*) \|$", re.MULTILINE)


def moves() -> Iterator[tuple[str, str]]:
    """Old and new path of each module in the decision, without `volcano.`."""
    for before, now, modules in ROW.findall(DECISION.read_text()):
        for cell in modules.split(", "):
            names = re.findall(r"`(\w+)`", cell)
            yield ".".join(filter(None, (before, names[0]))), ".".join((now, names[-1]))


def test_the_decision_lists_every_module_once() -> None:
    listed = [old for old, _ in moves()]
    assert len(listed) > 200
    assert len(listed) == len(set(listed))


def test_old_paths_are_gone() -> None:
    assert [old for old, _ in moves() if (SOURCE / Path(*old.split("."))).with_suffix(".py").exists()] == []


def test_no_text_names_an_old_path() -> None:
    # An old path that is a package now may be named.
    old = [name for name, _ in moves() if not (SOURCE / Path(*name.split("."))).is_dir()]
    dotted = "|".join(re.escape(name) for name in sorted(old, key=len, reverse=True))
    files = "|".join(re.escape(name.replace(".", "/")) for name in sorted(old, key=len, reverse=True))
    named = re.compile(rf"\bvolcano\.(?:{dotted})\b|\bvolcano/(?:{files})\.py\b|`(?:{files})\.py`")
    found = [
        f"{path.relative_to(TOP)}: {match[0]}"
        for path in texts()
        for match in named.finditer(path.read_text(errors="replace"))
        if match[0] != LOG_FILE
    ]
    assert found == []


def texts() -> Iterator[Path]:
    for place in PLACES:
        paths = [TOP / place] if (TOP / place).is_file() else (TOP / place).rglob("*")
        yield from (path for path in paths if path.is_file() and path.suffix in SUFFIXES and path != DECISION)

"""The table of frameworks names every example and the versions that are installed."""

import re
from pathlib import Path

from volcano.cli.volcano.example_files import names, path_of
from volcano.frameworks.install import recipe_names, recipe_of

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "frameworks"
ROW = re.compile(
    r"^\| \[[^]]+\]\((?P<page>[\w.-]+)\) \| (?P<version>\S+) \| (?P<examples>[^|]+) \|", re.MULTILINE
)


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((PAGES / "index.md").read_text()))


def test_every_example_of_a_framework_is_in_the_table_once() -> None:
    listed = [name for row in rows() for name in re.findall(r"`([^`]+)`", row["examples"])]
    assert sorted(name for name in listed if "/" in name) == sorted(name for name in names() if "/" in name)
    assert set(listed) <= set(names())


def test_versions_are_those_of_the_recipes() -> None:
    versions = {row["page"].removesuffix(".md"): row["version"] for row in rows() if row["version"] != "–"}
    assert versions == {name: recipe_of(name).version for name in recipe_names() if name in versions}


def test_every_page_of_the_table_says_how_to_run_its_examples() -> None:
    for row in rows():
        page = (PAGES / row["page"]).read_text()
        assert "volcano examples run" in page, row["page"]


def test_every_example_says_how_it_is_run() -> None:
    for name in names():
        if "/" in name:
            assert re.search(
                r"^#\s+volcano (run|examples run) \S", path_of(name).read_text(), re.MULTILINE
            ), name


def test_every_framework_has_tests_that_run_it() -> None:
    files = {path.stem for path in (ROOT / "tests" / "frameworks").glob("test_*.py")}
    texts = "".join((ROOT / "tests" / "frameworks" / f"{name}.py").read_text() for name in files)
    untested = [name for name in names() if "/" in name and name not in texts]
    assert untested == []

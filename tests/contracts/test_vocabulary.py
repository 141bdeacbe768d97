"""Vocabulary: mechanisms keep their Kubernetes names; texts are plain and without figures of speech."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano

SOURCE = Path(volcano.__file__).parent
TOP = Path(__file__).parents[2]
# Coined or personifying words, each with the term to use instead.
REPLACED = {
    "brain": "controller",
    "janitor": "controller",
    "prey": "victim index",
    "hunt": "victim search",
    "hunter": "victim search",
    "doom": "plan_deletion",
    "doomed": "deleted",
    "vouched": "after_commit",
    "greeter": "http server",
    "stranger": "foreign pod",
    "talker": "status worker",
    "hopeless": "infeasible",
    "barren": "infeasible",
    "flock": "content cache",
    "keeper": "shim",
    "seams": "interfaces",
    "verdict": "diagnosis",
    "misfit": "FitError",
    "mirrors": "reflector, informer",
    "refusal": "rejection, error",
    "judged": "validated",
    "heard": "received",
    "troubles": "errors, warnings",
    "abreast": "concurrent",
    "agenda": "work queue",
    "crowding": "stale decisions",
    "deeds": "bind queue",
    "namesake": "object of the same name",
    "outpost": "host network process",
    "patience": "timeout",
    "pulse": "cycle timer",
    "roster": "pod cache",
    "surroundings": "context",
    "taker": "preemptor",
    "throwaway": "temporary",
    "tidying": "garbage collection",
    "worklist": "job queue",
    "whoever": "the caller, the client, ...",
    "somebody": "name the component or user",
    "nobody": "name the component or user",
    "everybody": "name the components or users",
    "anybody": "name the component or user",
    "whom": "rephrase",
}
# How the project was made is no reason for anything.
HISTORY = (r"\bthe seeds?\b", r"\blater issue\b", r"\bseeds'")
# A scenario code of a document outside the repository, such as `test_a7_...`, says nothing to a reader.
CODED_TEST = re.compile(r"def (test_[a-z]{1,2}\d{1,2}_\w*)")


def texts() -> Iterator[Path]:
    yield from SOURCE.rglob("*.py")
    yield from (TOP / "docs").rglob("*.md")
    yield from (TOP / "changes").glob("*.md")
    yield from (TOP / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))


def places(pattern: re.Pattern[str], paths: Iterator[Path]) -> list[str]:
    return [
        f"{path.relative_to(TOP)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("word", REPLACED)
def test_replaced_words_do_not_come_back(word: str) -> None:
    found = places(re.compile(rf"(?<!fcntl\.)\b{word}s?\b", re.IGNORECASE), texts())
    assert found == [], f"write {REPLACED[word]!r} instead of {word!r}"


@pytest.mark.parametrize("phrase", HISTORY)
def test_texts_do_not_tell_how_the_project_was_made(phrase: str) -> None:
    tests = (path for path in (TOP / "tests").rglob("*.py") if path != Path(__file__))
    pattern = re.compile(phrase, re.IGNORECASE)
    assert [*places(pattern, texts()), *places(pattern, tests)] == []


def test_tests_are_named_by_behaviour() -> None:
    assert places(CODED_TEST, (TOP / "tests").rglob("test_*.py")) == []

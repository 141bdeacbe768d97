"""The Dockerfile as text: it is not built here, but the files and programs it names must exist."""

import re
import shlex
import tomllib

import pytest

from tests.installer.rendered import DEPLOYMENTS
from tools.installer.places import ROOT

DOCKERFILE = ROOT / "installer" / "dockerfile" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def allowed_in_context(path: str) -> bool:
    """Whether .dockerignore includes a path: everything is excluded except entries with `!`."""
    lines = (ROOT / ".dockerignore").read_text().split()
    assert "*" in lines
    return f"!{path}" in lines


def test_copied_files_exist_and_are_in_the_build_context() -> None:
    copied = [words for name, rest in instructions() if name == "COPY" for words in [shlex.split(rest)]]
    sources = [source for words in copied if not words[0].startswith("--") for source in words[:-1]]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert allowed_in_context(source), source


def test_files_that_the_package_build_needs_are_copied() -> None:
    copied = " ".join(rest for name, rest in instructions() if name == "COPY")
    assert PROJECT["project"]["readme"] in copied


def test_the_base_is_slim_and_new_enough_for_the_project() -> None:
    arguments = dict(rest.split("=") for name, rest in instructions() if name == "ARG")
    found = re.fullmatch(r"python:3\.(\d+)-slim", arguments["PYTHON"])
    assert found is not None
    assert int(found[1]) >= int(PROJECT["project"]["requires-python"].rpartition(".")[2])
    assert [rest.split()[0] for name, rest in instructions() if name == "FROM"] == ["${PYTHON}"] * 2


def test_the_image_does_not_run_as_root_and_writes_no_bytecode_at_run_time() -> None:
    names = [name for name, _ in instructions()]
    last = len(names) - 1 - names[::-1].index("FROM")
    of_the_image = instructions()[last:]
    (user,) = [rest for name, rest in of_the_image if name == "USER"]
    assert user == "1000:1000"
    assert any("PYTHONDONTWRITEBYTECODE=1" in rest for name, rest in of_the_image if name == "ENV")
    assert "compileall" in " ".join(rest for name, rest in instructions() if name == "RUN")


@pytest.mark.parametrize("program", DEPLOYMENTS.values())
def test_programs_that_the_chart_starts_are_installed_by_the_package(program: str) -> None:
    assert program in PROJECT["project"]["scripts"]


def test_the_default_command_is_a_program_of_the_package() -> None:
    (command,) = [rest for name, rest in instructions() if name == "CMD"]
    assert re.findall(r'"(\w[\w-]*)"', command)[0] in PROJECT["project"]["scripts"]

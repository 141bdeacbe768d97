"""The page that maps arena's options to `vcctl submit` names flags that exist, and commands that do what it says."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Vcctl

PAGE = (Path(__file__).parents[3] / "docs" / "frameworks" / "arena.md").read_text()
ROW = re.compile(r"^\| `arena submit .*\| `(vcctl submit .*)` \|$", re.MULTILINE)


def column(heading: str) -> list[str]:
    """Second cells of the table that begins with a heading."""
    table = PAGE[PAGE.index(heading) :].partition("\n\n")[0]
    return [row.split(" | ")[1].strip(" |") for row in table.splitlines()[2:]]


def dry_run(run_command: Vcctl, command: str) -> dict[str, Any]:
    """The job that a command of the page would create."""
    words = shlex.split(command)[1:]
    result = run_command(*words[:1], "--dry-run", "-o", "yaml", *words[1:])
    assert result.code == 0, result.err
    job: dict[str, Any] = yaml.safe_load(result.out)
    return job


def test_every_flag_of_the_table_exists(run_command: Vcctl) -> None:
    known = set(re.findall(r"--[a-z-]+", run_command("submit", "--help").out))
    named = {flag for cell in column("| `arena submit` |") for flag in re.findall(r"--[a-z-]+", cell)}
    assert named >= {"--plugin", "--workers", "--queue"}
    assert named - known == set()


def test_every_other_command_of_the_page_exists(run_command: Vcctl) -> None:
    for cell in column("| arena | here |\n| --- | --- |\n| `arena list`"):
        words = [word for word in cell.strip("`").split()[1:] if word.islower() and not word.startswith("-")]
        assert run_command(*words, "--help").code == 0, cell


@pytest.mark.parametrize(
    ("number", "name", "pods", "minimum", "plugin"),
    [(0, "ddp", 4, 4, "pytorch"), (1, "mnist", 2, 2, "tensorflow"), (2, "solve", 9, 9, "mpi"),
     (3, "short", 2, 2, "pytorch"), (4, "demo", 3, 2, "")],
)  # fmt: skip
def test_commands_of_the_page_create_the_gangs_they_promise(
    run_command: Vcctl, number: int, name: str, pods: int, minimum: int, plugin: str
) -> None:
    job = dry_run(run_command, ROW.findall(PAGE)[number])
    spec = job["spec"]
    assert job["metadata"]["name"] == name
    assert sum(task["replicas"] for task in spec["tasks"]) == pods
    assert spec["minAvailable"] == minimum
    assert not plugin or plugin in spec["plugins"]


def test_the_page_has_no_example_without_a_check() -> None:
    assert len(ROW.findall(PAGE)) == 5


def test_limits_of_the_page_reach_the_job(run_command: Vcctl) -> None:
    first, second, third, short, demo = (dry_run(run_command, row) for row in ROW.findall(PAGE))
    container = first["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert first["spec"]["priorityClassName"] == "high"
    requests = second["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert {key: str(value) for key, value in requests.items()} == {"cpu": "2", "memory": "4Gi"}
    assert third["spec"]["maxRetry"] == 2
    assert short["spec"]["ttlSecondsAfterFinished"] == 600
    assert short["metadata"]["annotations"]["volcano.sh/walltime"]
    assert demo["spec"]["queue"] == "research"

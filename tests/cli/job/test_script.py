"""Batch scripts with #VC, #SBATCH and #BSUB lines."""

from pathlib import Path

import pytest

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key
from volcano.services.errors import InvalidInput, ServiceError
from volcano.services.submit.script import read_script


def script(tmp_path: Path, *lines: str, first: str = "#!/bin/bash") -> Path:
    path = tmp_path / "train.sh"
    path.write_text("\n".join([first, *lines, 'echo "hello $1"', ""]))
    return path


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        (["#VC --workers 4 --gpus 2"], ["--workers", "4", "--gpus", "2"]),
        (["#SBATCH --job-name=a -n 4"], ["--name", "a", "--workers", "4"]),
        (["#SBATCH -N2-4 -c8"], ["--workers", "2", "--cpus", "8"]),
        (["#SBATCH --gres=gpu:a100:2 --mem=8G"], ["--gpus", "2", "--memory", "8Gi"]),
        (["#SBATCH --mem 500"], ["--memory", "500Mi"]),
        (["#SBATCH -t 1-12:00:00 -p research"], ["--time", "1-12:00:00", "--queue", "research"]),
        (["#SBATCH --array=1-9%3 --requeue # comment"], ["--array", "1-9%3", "--requeue"]),
        (["#SBATCH --dependency=afterok:a"], ["--dependency", "afterok:a"]),
        (["#BSUB -J sim[1-9]%3 -q short"], ["--name", "sim", "--array", "1-9%3", "--queue", "short"]),
        (["#BSUB -W 1:30 -n 4"], ["--time", "90m", "--workers", "4"]),
        (['#BSUB -gpu "num=2:mode=shared" -M 4G'], ["--gpus", "2", "--memory", "4Gi"]),
        (['#BSUB -w "done(a) && ended(b)" -r'], ["--dependency", "afterok:a,afterany:b", "--requeue"]),
        (["# SBATCH -n 4", "echo '#SBATCH'"], []),
    ],
)
def test_options_are_translated(tmp_path: Path, lines: list[str], flags: list[str]) -> None:
    assert read_script(script(tmp_path, *lines)).flags == flags


def test_options_without_a_meaning_here_are_reported(tmp_path: Path) -> None:
    found = read_script(script(tmp_path, "#SBATCH --output=x.log --exclusive --constraint=a100"))
    assert found.flags == []
    assert found.remarks == [
        "#SBATCH --output: logs are kept: vcctl job logs NAME",
        "#SBATCH --exclusive: not supported, ignored",
        "#SBATCH --constraint: not supported, ignored",
    ]


def test_a_wrong_value_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"train\.sh:3: 'lots' is not an amount of memory"):
        read_script(script(tmp_path, "# a comment", "#SBATCH --mem=lots"))


@pytest.mark.parametrize(
    ("first", "interpreter"),
    [
        ("#!/bin/bash", ["/bin/bash"]),
        ("#!/usr/bin/env python3", ["/usr/bin/env", "python3"]),
        ("# no interpreter", ["/bin/sh"]),
    ],
)
def test_the_interpreter_runs_the_text(tmp_path: Path, first: str, interpreter: list[str]) -> None:
    assert read_script(script(tmp_path, first=first)).interpreter == interpreter


def test_other_interpreters_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="runs with /usr/bin/Rscript"):
        read_script(script(tmp_path, first="#!/usr/bin/Rscript"))


def test_a_script_is_submitted_with_its_options(
    run_command: Vcctl, vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    path = script(tmp_path, "#SBATCH -J from-script -n 2", "#SBATCH -o out.log")
    result = vcctl(str(path), "world", program="vsub")
    assert (result.code, result.out) == (0, f"submitted job {namespace}/from-script\n")
    assert result.err.startswith("#SBATCH -o: logs are kept: vcctl job logs NAME\n")
    (task,) = embedded.get(JOB, Key(namespace, "from-script"))["spec"]["tasks"]
    assert task["replicas"] == 2
    command = task["template"]["spec"]["containers"][0]["command"]
    assert command == ["/bin/bash", "-c", path.read_text(), "train.sh", "world"]

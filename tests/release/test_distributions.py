"""Wheel and source distribution: complete, installed in a clean environment, and used outside the repository."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.release.installed import TOP, Installed
from volcano import __version__

pytestmark = pytest.mark.slow

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: greeting}
spec:
  minAvailable: 2
  tasks:
    - name: worker
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: busybox
              command: [sh, -c, "echo hello from $HOSTNAME"]
"""


def package_files() -> set[str]:
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=TOP, capture_output=True, text=True, check=True
    ).stdout.split()
    return {name.removeprefix("src/") for name in tracked if (TOP / name).is_file()}


def test_the_wheel_has_every_file_of_the_package(installed: Installed) -> None:
    assert package_files() - set(zipfile.ZipFile(installed.wheel).namelist()) == set()


def test_the_source_distribution_has_every_file_of_the_package(installed: Installed) -> None:
    with tarfile.open(installed.source) as archive:
        names = {Path(name).parts[1:] for name in archive.getnames()}
    assert {("src", *Path(name).parts) for name in package_files()} - names == set()


def test_programs_print_version_and_commit_of_the_build(installed: Installed) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True, check=True
    ).stdout.strip()
    printed = installed.run("vcctl", "version").stdout
    assert f"Version: {__version__}\n" in printed
    assert f"Git SHA: {commit}\n" in printed
    assert "Built At: 20" in printed
    for program in (
        "vc-scheduler",
        "vc-controller-manager",
        "vc-webhook-manager",
        "vc-hypernode-controller-manager",
        "volcano",
    ):
        assert __version__ in installed.run(program, "--version").stdout


def test_a_job_runs_to_completion_outside_the_repository(installed: Installed) -> None:
    (installed.directory / "job.yaml").write_text(JOB)
    done = installed.run("volcano", "run", "job.yaml")
    assert done.returncode == 0, done.stderr
    assert "greeting-worker-0 | hello from greeting-worker-0" in done.stdout
    assert "Completed" in done.stdout

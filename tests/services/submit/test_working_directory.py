"""Which directories of this machine the pods of a submission see."""

import os
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.test_python_environment import virtualenv
from volcano.services.submit.working_directory import (
    HostDirectory,
    find_environment,
    host_directories,
    named_files,
    reason_not_mounted,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "no-data"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "no-run"))
    home = tmp_path / "home"
    (home / "python/bin").mkdir(parents=True)
    (home / "python/bin/python3").touch()
    (home / "project/src").mkdir(parents=True)
    return home


def test_a_project_is_mounted_writable_and_its_environment_read_only(home: Path) -> None:
    root = virtualenv(home / "environment", home / "python/bin/python3")
    environment = {"HOME": str(home), "VIRTUAL_ENV": str(root), "PATH": "/usr/bin:relative:/opt/bin"}
    found = find_environment(str(home / "project"), environment)
    assert found is not None
    assert found.variables["VIRTUAL_ENV"] == str(root)
    assert found.variables["PATH"].startswith(f"{root}/bin:/usr/bin:/opt/bin:/usr/local/sbin")
    assert host_directories(str(home / "project"), found) == (
        HostDirectory(str(home / "project"), read_only=False),
        HostDirectory(str(root)),
        HostDirectory(str(home / "python")),
    )


def test_an_environment_inside_the_project_needs_no_mount_of_its_own(home: Path) -> None:
    virtualenv(home / "project/.venv", home / "python/bin/python3")
    (home / "project/pyproject.toml").touch()
    found = find_environment(str(home / "project/src"), {"HOME": str(home)})
    assert found is not None
    assert found.root == str(home / "project/.venv")
    paths = [directory.path for directory in host_directories(str(home / "project"), found)]
    assert paths == [str(home / "project"), str(home / "python")]


def test_a_venv_without_a_project_file_is_used_only_when_activated(home: Path) -> None:
    virtualenv(home / "project/.venv", home / "python/bin/python3")
    assert find_environment(str(home / "project"), {"HOME": str(home)}) is None


def test_a_conda_environment_is_activated_by_its_own_variable(home: Path) -> None:
    (home / "conda/conda-meta").mkdir(parents=True)
    found = find_environment(str(home), {"HOME": str(home), "CONDA_PREFIX": str(home / "conda")})
    assert found is not None
    assert found.variables["CONDA_PREFIX"] == str(home / "conda")
    assert found.variables["PATH"].startswith(f"{home}/conda/bin:")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("home", "is a home directory", id="the home"),
        pytest.param(".", "contains the home directory", id="above the home"),
        pytest.param("home/.ssh", "may hold credentials", id="credentials"),
        pytest.param("home/link", "is a home directory", id="a link to the home"),
        pytest.param("home/project", "", id="a project"),
    ],
)
def test_homes_and_credentials_are_not_mounted(home: Path, tmp_path: Path, path: str, reason: str) -> None:
    (home / ".ssh").mkdir()
    (home / "link").symlink_to(home)
    found = reason_not_mounted(os.path.normpath(tmp_path / path), {"HOME": str(home)})
    assert found.endswith(reason) if reason else found == ""


def test_directories_with_keys_of_a_cluster_are_not_mounted(home: Path) -> None:
    kubeconfig = home / "project" / "data" / "kubeconfig"
    for directory in ("project", "project/data"):
        found = reason_not_mounted(str(home / directory), {"HOME": str(home)}, [str(kubeconfig)])
        assert "where keys of a cluster are" in found
    assert reason_not_mounted(str(home / "project/src"), {"HOME": str(home)}, [str(kubeconfig)]) == ""


@pytest.mark.parametrize("path", ["/", "/tmp", "/etc", "/usr", "/home"])
def test_directories_of_the_system_are_not_mounted(path: str) -> None:
    assert "directory of the system" in reason_not_mounted(path, {"HOME": "/home/someone/x"})


def test_files_of_a_command_are_found(home: Path) -> None:
    (home / "project/train.py").touch()
    command = ["/bin/sh", "-c", "python train.py --data missing.csv"]
    assert named_files(command, str(home / "project")) == ["train.py"]

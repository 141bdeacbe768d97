"""A Python environment is mounted with what it needs, and never a home directory or credentials."""

import os
from pathlib import Path

import pytest

from volcano.nodes.shim.isolation.host_programs import host_mounts
from volcano.nodes.shim.isolation.python_environment import (
    active_environments,
    environment_directories,
    exposable_in,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for directory in ("python/3.12/bin", "python/3.12/lib", "src/mine", ".ssh", ".local/bin", ".local/lib"):
        (home / directory).mkdir(parents=True)
    (home / "python/3.12/bin/python3.12").touch()
    (home / "python/current").symlink_to("3.12")
    return home


def virtualenv(root: Path, interpreter: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").symlink_to(interpreter)
    (root / "lib/python3.12/site-packages").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\nversion = 3.12.1\n")
    return root


def needs(root: Path, home: Path, **variables: str) -> set[str]:
    found = environment_directories(str(root), {"HOME": str(home), **variables})
    return {os.path.relpath(path, home) for path in found}


def test_an_environment_is_mounted_with_its_interpreter_by_every_name(home: Path) -> None:
    root = virtualenv(home / "venv", home / "python/current/bin/python3.12")
    assert needs(root, home) == {"venv", "python/current", "python/3.12"}


def test_an_activated_environment_of_a_shim_is_mounted_whole(home: Path) -> None:
    root = virtualenv(home / "venv", home / "python/3.12/bin/python3.12")
    for environment in ({"VIRTUAL_ENV": str(root)}, {"PATH": f"{root}/bin"}):
        shown = host_mounts({"HOME": str(home), **environment}).directories
        assert str(root) in shown
        assert str(home / "python/3.12") in shown
        assert not any(str(home).startswith(each) for each in shown if each not in ("/usr", "/opt"))


def test_a_conda_environment_is_mounted_whole(home: Path) -> None:
    (home / "conda/envs/ml/conda-meta").mkdir(parents=True)
    environment = {"HOME": str(home), "CONDA_PREFIX": str(home / "conda/envs/ml")}
    assert active_environments(environment) == [str(home / "conda/envs/ml")]
    assert str(home / "conda/envs/ml") in host_mounts(environment).directories


def test_packages_installed_in_editable_mode_are_mounted(home: Path) -> None:
    root = virtualenv(home / "venv", home / "python/3.12/bin/python3.12")
    (home / "src/mapped").mkdir()
    (home / "src/single").mkdir()
    (home / "src/single/module.py").touch()
    site = root / "lib/python3.12/site-packages"
    (site / "mine.pth").write_text(f"import sys\n{home}/src/mine\nrelative\n")
    mapping = {"mapped": f"{home}/src/mapped", "module": f"{home}/src/single/module.py"}
    (site / "__editable___mapped_1_0_finder.py").write_text(f"MAPPING: dict[str, str] = {mapping!r}\nX = 1\n")
    assert needs(root, home) == {"venv", "python/3.12", "src/mine", "src/mapped", "src/single"}


@pytest.mark.parametrize("target", ["", ".ssh", ".local/share", "..", "src"])
def test_homes_credentials_and_what_contains_them_are_never_mounted(home: Path, target: str) -> None:
    root = virtualenv(home / "venv", home / "python/3.12/bin/python3.12")
    (home / ".local/share/keyrings").mkdir(parents=True)
    (home / "src/config").touch()
    (root / "lib/python3.12/site-packages/x.pth").write_text(f"{home / target}\n")
    (home / "link").symlink_to(home / target)
    (root / "lib/python3.12/site-packages/y.pth").write_text(f"{home}/link\n")
    assert needs(root, home, KUBECONFIG=f"{home}/src/config") == {"venv", "python/3.12"}


def test_an_interpreter_in_a_shared_prefix_is_mounted_without_the_rest(home: Path) -> None:
    (home / ".local/bin/python3.12").touch()
    (home / ".local/share/keyrings").mkdir(parents=True)
    root = virtualenv(home / "venv", home / ".local/bin/python3.12")
    assert needs(root, home) == {"venv", ".local/bin", ".local/lib"}


def test_directories_of_the_system_need_no_mount() -> None:
    exposable = exposable_in({"HOME": "/home/someone"})
    assert not exposable("/usr/lib/python3")
    assert not exposable("/")
    assert exposable("/srv/environments/ml")


def test_an_unreadable_or_damaged_environment_is_mounted_without_the_parts_that_are_missing(
    home: Path,
) -> None:
    root = home / "broken"
    (root / "lib/python3.12/site-packages").mkdir(parents=True)
    (root / "pyvenv.cfg").write_bytes(b"\xff\xfehome\n= \n")
    (root / "lib/python3.12/site-packages/__editable__x_finder.py").write_text("MAPPING = {")
    assert needs(root, home) == {"broken"}

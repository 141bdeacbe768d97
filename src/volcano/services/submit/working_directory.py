"""Working directory and Python environment of a submission: what of this machine its pods see."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volcano.nodes.shim.isolation.host_programs import STANDARD_PATH
from volcano.nodes.shim.isolation.python_environment import (
    active_environments,
    environment_directories,
    is_environment,
    never_mounted,
    within,
)

VIRTUAL_ENV, CONDA_PREFIX = "VIRTUAL_ENV", "CONDA_PREFIX"
_PROJECT_FILES = ("pyproject.toml", "uv.lock")


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """A directory of this machine that pods see at the same path."""

    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An environment to run in: its directories, and the variables that activate it."""

    root: str
    directories: tuple[str, ...]
    variables: Mapping[str, str]


def reason_not_mounted(path: str, environment: Mapping[str, str], kubeconfigs: Sequence[str] = ()) -> str:
    """Why a directory is not mounted in pods; empty if it may be. The kubelet checks the keys of the cluster again."""
    if reason := never_mounted(path, environment):
        return reason
    for kept in _private_paths(kubeconfigs):
        for each in (path, os.path.realpath(path)):
            if within(kept, each) or within(each, kept):
                return f"{each} contains or is part of {kept}, where keys of a cluster are"
    return ""


def find_environment(directory: str, environment: Mapping[str, str]) -> PythonEnvironment | None:
    """The activated virtualenv or conda environment, else the `.venv` of the project that the directory belongs to."""
    roots = active_environments(environment) or _project_environment(directory)
    # A virtualenv that was created from a conda environment is activated inside of it.
    if not roots or never_mounted(roots[0], environment):
        return None
    root = roots[0]
    variable = VIRTUAL_ENV if os.path.isfile(os.path.join(root, "pyvenv.cfg")) else CONDA_PREFIX
    programs = [os.path.join(root, "bin"), *environment.get("PATH", "").split(":"), *STANDARD_PATH.split(":")]
    path = ":".join(dict.fromkeys(entry for entry in programs if os.path.isabs(entry)))
    return PythonEnvironment(
        root, tuple(environment_directories(root, environment)), {"PATH": path, variable: root}
    )


def host_directories(working_directory: str, python: PythonEnvironment | None) -> tuple[HostDirectory, ...]:
    """The directories to mount: the working directory writable, the environment read-only where it is outside."""
    outside = [
        path
        for path in (python.directories if python is not None else ())
        if not (working_directory and within(path, working_directory))
    ]
    topmost = [
        path for path in outside if not any(path != other and within(path, other) for other in outside)
    ]
    own = [HostDirectory(working_directory, read_only=False)] if working_directory else []
    return (*own, *(HostDirectory(path) for path in topmost))


def named_files(command: Sequence[str], directory: str) -> list[str]:
    """Words of a command that name files of the directory."""
    words = [word for part in command for word in part.split()]
    return [
        word
        for word in dict.fromkeys(words)
        if not os.path.isabs(word) and os.path.isfile(os.path.join(directory, word))
    ]


def _project_environment(directory: str) -> list[str]:
    """`.venv` beside the nearest pyproject.toml or uv.lock, in the directory or above."""
    for above in (Path(directory), *Path(directory).parents):
        if any((above / name).is_file() for name in _PROJECT_FILES):
            root = str(above / ".venv")
            return [root] if is_environment(root) else []
    return []


def _private_paths(kubeconfigs: Sequence[str]) -> list[str]:
    """Kubeconfigs in use, and data directories of clusters that run on this machine."""
    from volcano.embedded.state import default_directory, find, memory_directory

    running = [
        path
        for found in map(find, (default_directory(), memory_directory()))
        if found
        for path in (found.directory, found.kubeconfig)
    ]
    return [os.path.realpath(path) for path in (*running, *kubeconfigs)]

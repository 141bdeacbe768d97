"""Images of frameworks that are Python packages: the virtual environment of the installation stands for them."""

import os
from collections.abc import Mapping
from pathlib import Path

from volcano.frameworks.recipe import ImageMapping
from volcano.nodes.shim.isolation.host_programs import STANDARD_PATH
from volcano.nodes.shim.isolation.python_environment import environment_directories


def python_images(
    directory: Path, *patterns: str, paths: tuple[str, ...] = (), environment: Mapping[str, str] = {}
) -> tuple[ImageMapping, ...]:
    """One mapping per pattern: programs of `directory/venv` come first in PATH, before those of the host.

    The interpreter's own directories belong to it: volcano may run with another Python when the pods are started.
    """
    venv = directory / "venv"
    mounted = (str(directory), *environment_directories(str(venv), os.environ), *paths)
    unique = tuple(path for path in dict.fromkeys(mounted) if path != str(venv))
    variables = {"PATH": f"{venv}/bin:{STANDARD_PATH}", "VIRTUAL_ENV": str(venv), **environment}
    return tuple(ImageMapping(pattern, paths=unique, environment=variables) for pattern in patterns)

"""Recipes: how a framework is installed, and the images that its programs stand for."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from volcano.frameworks.errors import NotAvailable
from volcano.frameworks.installation import Installation
from volcano.nodes.image_mapping import ImageMapping

__all__ = ["ImageMapping", "Installation", "NotAvailable", "Recipe"]

UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
SIZE = re.compile(r"(\d+(?:\.\d+)?) (kB|MB|GB)")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Instructions for one version of a framework. `install` runs once; `images` gets its directory."""

    name: str
    version: str
    summary: str
    size: str  # when installed, such as "370 MB" or "1.2 GB"
    install: Callable[[Installation], None]
    images: Callable[[Path], tuple[ImageMapping, ...]]
    requires: tuple[str, ...] = ()  # programs such as "go", "java" or "cmake"
    revision: int = 1  # to be raised when `install` changes but the version does not

    @property
    def bytes(self) -> int:
        """The size as a number. Raises ValueError if it is not written as a number and a unit."""
        match = SIZE.fullmatch(self.size)
        if match is None:
            raise ValueError(f"recipe {self.name}: size {self.size!r} is not like '370 MB' or '1.2 GB'")
        return int(float(match[1]) * UNITS[match[2]])

    @property
    def directory_name(self) -> str:
        return f"{self.name}-{self.version}"

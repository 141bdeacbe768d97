"""Resource groups: an administrator's node assignment of pods, read from a file that may change."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.kube.api.manifest import Manifest

log = Log("resourcegroups")

REFRESH_SECONDS = 10.0

# Types of the fields of a group.
FIELD_TYPES: Mapping[str, type] = {
    "resourceGroup": str,
    "object": dict,
    "schedulerName": str,
    "tolerations": list,
    "labels": dict,
}


def read_groups(text: str) -> tuple[Manifest, ...]:
    """The groups of a YAML configuration; raises ValueError."""
    try:
        loaded = load_yaml(text).value or {}
    except YamlError as error:
        raise ValueError(f"no YAML: {error}") from None
    groups = loaded.get("resourceGroups") or [] if isinstance(loaded, dict) else None
    if not isinstance(groups, list):
        raise ValueError("a mapping with a list `resourceGroups` was expected")
    return tuple(_group(place, group) for place, group in enumerate(groups))


def _group(place: int, group: Any) -> Manifest:
    here = f"resourceGroups[{place}]"
    if not isinstance(group, dict):
        raise ValueError(f"{here}: a mapping was expected, not {group!r}")
    for name, type_ in FIELD_TYPES.items():
        if group.get(name) is not None and not isinstance(group[name], type_):
            raise ValueError(f"{here}.{name}: a {type_.__name__} was expected, not {group[name]!r}")
    affinity = group.get("affinity")
    if isinstance(affinity, str) and affinity:
        try:
            affinity = orjson.loads(affinity)
        except ValueError as error:
            raise ValueError(f"{here}.affinity: no JSON: {error}") from None
    if affinity and not isinstance(affinity, dict):
        raise ValueError(f"{here}.affinity: an affinity was expected, not {affinity!r}")
    return {**group, "affinity": affinity or None}


class GroupsFile:
    """The groups of a file; an invalid change keeps the last valid ones."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError or OSError when the file cannot be read at start."""
        self._path = path
        self._seen = self._mark()
        self._groups = read_groups(path.read_text())

    def __call__(self) -> Sequence[Manifest]:
        return self._groups

    def reload(self) -> None:
        """Reads the file again if it changed."""
        try:
            mark = self._mark()
            if mark == self._seen:
                return
            self._seen = mark
            self._groups = read_groups(self._path.read_text())
            log.info("resource groups reloaded", file=self._path, groups=len(self._groups))
        except (OSError, ValueError) as error:
            log.warning(
                "resource groups not reloaded, keeping the last valid ones", file=self._path, error=error
            )

    def _mark(self) -> tuple[int, int, int]:
        """Changes when the file is written or replaced, as a mounted ConfigMap is."""
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_ino, stat.st_size


class RefreshedGroups:
    """The groups of a file, read again when they are needed and the last check is a while ago."""

    def __init__(self, file: GroupsFile, clock: Clock, interval: float = REFRESH_SECONDS) -> None:
        self._file = file
        self._clock = clock
        self._interval = interval
        self._checked = clock.now().monotonic

    def __call__(self) -> Sequence[Manifest]:
        now = self._clock.now().monotonic
        if now - self._checked >= self._interval:
            self._checked = now
            self._file.reload()
        return self._file()

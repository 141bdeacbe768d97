"""Directories of this host with programs, which pods may see read-only; everything else of the host is hidden."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from volcano.nodes.shim.isolation import python_environment
from volcano.nodes.shim.isolation.python_environment import SYSTEM_DIRECTORIES, within

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Directories of a prefix such as ~/.cargo that are mounted: programs and libraries, but no credentials or
# settings.
_PREFIX_DIRECTORIES = (
    "bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include", "shims", "versions", "condabin", "etc", "ssl"
)  # fmt: skip
_DOT_LOCAL_DIRECTORIES = ("bin", "lib")
_BIN_NAMES = frozenset({"bin", "sbin", "shims", "condabin"})


@dataclass(frozen=True, slots=True)
class HostMounts:
    """Directories of this host to mount read-only, and symbolic links beside them."""

    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # path, target


def host_mounts(environment: Mapping[str, str] = os.environ) -> HostMounts:
    """Returns the system directories, and the directories of PATH, of this Python and of Python environments elsewhere.

    A symbolic link of the root (/bin -> usr/bin) is a link in the pod, too.
    """
    links = tuple((each, os.readlink(each)) for each in SYSTEM_DIRECTORIES if os.path.islink(each))
    directories = [each for each in SYSTEM_DIRECTORIES if os.path.isdir(each) and not os.path.islink(each)]
    excluded = _never_exposed(environment)
    for prefix in (sys.base_prefix, sys.prefix):
        directories.extend(_prefix_directories(prefix, excluded))
    for entry in environment.get("PATH", "").split(":"):
        if os.path.isabs(entry) and os.path.isdir(entry):
            directories.extend(_path_entry_directories(os.path.normpath(entry), excluded))
    for root in _environment_roots(environment):
        directories.extend(python_environment.environment_directories(root, environment))
    return HostMounts(directories=_topmost(directories), links=links)


def default_path(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the default PATH of a container: the standard one, and the mounted directories of the host's PATH."""
    shown = host_mounts(environment).directories
    standard = STANDARD_PATH.split(":")
    own = [os.path.join(prefix, "bin") for prefix in (sys.prefix, sys.base_prefix)]
    further = [
        os.path.normpath(entry)
        for entry in [*environment.get("PATH", "").split(":"), *own]
        if os.path.isabs(entry) and os.path.isdir(entry) and any(within(entry, each) for each in shown)
    ]
    return ":".join(dict.fromkeys([*standard, *further]))


def _environment_roots(environment: Mapping[str, str]) -> list[str]:
    """Python environments that are activated, in PATH, or run this program."""
    in_path = (os.path.dirname(os.path.normpath(entry)) for entry in environment.get("PATH", "").split(":"))
    known = [*python_environment.active_environments(environment), *in_path, sys.prefix]
    return [
        root
        for root in dict.fromkeys(known)
        if os.path.isabs(root) and python_environment.is_environment(root)
    ]


def _path_entry_directories(entry: str, excluded: frozenset[str]) -> list[str]:
    parent = os.path.dirname(entry)
    if any(within(entry, system) for system in SYSTEM_DIRECTORIES):
        return []
    if os.path.basename(entry) not in _BIN_NAMES or parent in excluded:
        return [] if entry in excluded else [entry]
    names = _DOT_LOCAL_DIRECTORIES if os.path.basename(parent) == ".local" else _PREFIX_DIRECTORIES
    inside = [os.path.join(parent, name) for name in names]
    return [path for path in inside if os.path.isdir(path)]


def _prefix_directories(prefix: str, excluded: frozenset[str]) -> list[str]:
    return (
        [] if prefix in excluded or any(within(prefix, system) for system in SYSTEM_DIRECTORIES) else [prefix]
    )


def _never_exposed(environment: Mapping[str, str]) -> frozenset[str]:
    """Directories that are never mounted as a whole."""
    known = {
        "/",
        "/root",
        "/home",
        "/tmp",
        "/var",
        "/run",
        "/etc",
        os.path.normpath(environment.get("HOME", "/")),
    }
    try:
        return frozenset(known | {os.path.join("/home", name) for name in os.listdir("/home")})
    except OSError:
        return frozenset(known)


def _topmost(paths: Iterable[str]) -> tuple[str, ...]:
    """Removes paths that are inside another one."""
    unique = list(dict.fromkeys(paths))
    return tuple(p for p in unique if not any(p != other and within(p, other) for other in unique))

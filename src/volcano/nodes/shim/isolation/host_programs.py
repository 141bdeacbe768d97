"""Which of this host's directories hold programs, so that a pod may see them; everything else of the host is hidden."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Whole directories of the root; where one is a symbolic link (/bin -> usr/bin), so it is in the pod.
SYSTEM_DIRECTORIES = ("/usr", "/opt", "/nix", "/gnu", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What a prefix such as ~/.cargo may show of itself: programs and what they need, but no credentials or settings.
_PREFIX_DIRECTORIES = (
    "bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include", "shims", "versions", "condabin", "etc", "ssl"
)  # fmt: skip
_DOT_LOCAL_DIRECTORIES = ("bin", "lib")
_BIN_NAMES = frozenset({"bin", "sbin", "shims", "condabin"})


@dataclass(frozen=True, slots=True)
class HostMounts:
    """What the private root shows of this host, read-only, and the links beside it."""

    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # path, what it points at


def host_mounts(environment: Mapping[str, str] = os.environ) -> HostMounts:
    """The system's directories, and those below other places that PATH and this Python name."""
    links = tuple((each, os.readlink(each)) for each in SYSTEM_DIRECTORIES if os.path.islink(each))
    directories = [each for each in SYSTEM_DIRECTORIES if os.path.isdir(each) and not os.path.islink(each)]
    excluded = _never_exposed(environment)
    for prefix in (sys.base_prefix, sys.prefix):
        directories.extend(_prefix_directories(prefix, excluded))
    for entry in environment.get("PATH", "").split(":"):
        if os.path.isabs(entry) and os.path.isdir(entry):
            directories.extend(_path_entry_directories(os.path.normpath(entry), excluded))
    return HostMounts(directories=_topmost(directories), links=links)


def default_path(environment: Mapping[str, str] = os.environ) -> str:
    """A PATH for a container that has none: the standard one, and what the host's own names beyond it."""
    shown = host_mounts(environment).directories
    standard = STANDARD_PATH.split(":")
    own = [os.path.join(prefix, "bin") for prefix in (sys.prefix, sys.base_prefix)]
    further = [
        os.path.normpath(entry)
        for entry in [*environment.get("PATH", "").split(":"), *own]
        if os.path.isabs(entry) and os.path.isdir(entry) and any(_within(entry, each) for each in shown)
    ]
    return ":".join(dict.fromkeys([*standard, *further]))


def _path_entry_directories(entry: str, excluded: frozenset[str]) -> list[str]:
    parent = os.path.dirname(entry)
    if any(_within(entry, system) for system in SYSTEM_DIRECTORIES):
        return []
    if os.path.basename(entry) not in _BIN_NAMES or parent in excluded:
        return [] if entry in excluded else [entry]
    names = _DOT_LOCAL_DIRECTORIES if os.path.basename(parent) == ".local" else _PREFIX_DIRECTORIES
    inside = [os.path.join(parent, name) for name in names]
    return [path for path in inside if os.path.isdir(path)]


def _prefix_directories(prefix: str, excluded: frozenset[str]) -> list[str]:
    return (
        []
        if prefix in excluded or any(_within(prefix, system) for system in SYSTEM_DIRECTORIES)
        else [prefix]
    )


def _never_exposed(environment: Mapping[str, str]) -> frozenset[str]:
    """Directories that are never shown whole."""
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
    """Without those that lie within another of them."""
    unique = list(dict.fromkeys(paths))
    return tuple(p for p in unique if not any(p != other and _within(p, other) for other in unique))


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")

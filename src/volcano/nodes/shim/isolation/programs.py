"""Which of this host's directories hold programs, so that a pod may see them; everything else of the host is hidden."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Whole directories of the root; where one is a symbolic link (/bin -> usr/bin), so it is in the pod.
SYSTEM = ("/usr", "/opt", "/nix", "/gnu", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What a prefix such as ~/.cargo may show of itself: programs and what they need, but no credentials or settings.
_OF_A_PREFIX = (
    "bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include", "shims", "versions", "condabin", "etc", "ssl"
)  # fmt: skip
_OF_DOT_LOCAL = ("bin", "lib")
_NAMES_OF_BIN = frozenset({"bin", "sbin", "shims", "condabin"})


@dataclass(frozen=True, slots=True)
class Exposed:
    """What the private root shows of this host, read-only, and the links beside it."""

    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # path, what it points at


def exposed(environment: Mapping[str, str] = os.environ) -> Exposed:
    """The system's directories, and those below other places that PATH and this Python name."""
    links = tuple((each, os.readlink(each)) for each in SYSTEM if os.path.islink(each))
    directories = [each for each in SYSTEM if os.path.isdir(each) and not os.path.islink(each)]
    homes = _homes(environment)
    for prefix in (sys.base_prefix, sys.prefix):
        directories.extend(_below_no_home(prefix, homes))
    for entry in environment.get("PATH", "").split(":"):
        if os.path.isabs(entry) and os.path.isdir(entry):
            directories.extend(_of_path_entry(os.path.normpath(entry), homes))
    return Exposed(directories=_topmost(directories), links=links)


def program_path(environment: Mapping[str, str] = os.environ) -> str:
    """A PATH for a container that has none: the standard one, and what the host's own names beyond it."""
    shown = exposed(environment).directories
    standard = STANDARD_PATH.split(":")
    own = [os.path.join(prefix, "bin") for prefix in (sys.prefix, sys.base_prefix)]
    further = [
        os.path.normpath(entry)
        for entry in [*environment.get("PATH", "").split(":"), *own]
        if os.path.isabs(entry) and os.path.isdir(entry) and any(_within(entry, each) for each in shown)
    ]
    return ":".join(dict.fromkeys([*standard, *further]))


def _of_path_entry(entry: str, homes: frozenset[str]) -> list[str]:
    parent = os.path.dirname(entry)
    if any(_within(entry, system) for system in SYSTEM):
        return []
    if os.path.basename(entry) not in _NAMES_OF_BIN or parent in homes:
        return [] if entry in homes else [entry]
    names = _OF_DOT_LOCAL if os.path.basename(parent) == ".local" else _OF_A_PREFIX
    inside = [os.path.join(parent, name) for name in names]
    return [path for path in inside if os.path.isdir(path)]


def _below_no_home(prefix: str, homes: frozenset[str]) -> list[str]:
    return [] if prefix in homes or any(_within(prefix, system) for system in SYSTEM) else [prefix]


def _homes(environment: Mapping[str, str]) -> frozenset[str]:
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

"""Python environments of this host: the directories that a virtualenv or conda environment needs to work.

The shim mounts them for all pods, and `vcctl submit` for the pods of one job.
"""

import ast
import glob
import os
from collections.abc import Callable, Iterator, Mapping

SYSTEM_DIRECTORIES = ("/usr", "/opt", "/nix", "/gnu", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_NEVER_WHOLE = ("/", "/root", "/home", "/tmp", "/var", "/var/tmp", "/run", "/etc", "/srv", "/mnt", "/media")
# Directories of a home that hold credentials or settings.
_CREDENTIALS = (
    ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".local/share/keyrings", ".mozilla", ".netrc", ".oci",
    ".password-store", ".ssh",
)  # fmt: skip
_MAX_LINKS = 40
_PTH_SIZE = 1 << 20


def active_environments(environment: Mapping[str, str]) -> list[str]:
    """Roots of the activated environments: a virtualenv (also of uv and poetry), a conda environment."""
    named = (environment.get(variable, "") for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    return [os.path.normpath(path) for path in named if os.path.isabs(path) and is_environment(path)]


def is_environment(root: str) -> bool:
    return os.path.isfile(os.path.join(root, "pyvenv.cfg")) or os.path.isdir(os.path.join(root, "conda-meta"))


def environment_directories(root: str, environment: Mapping[str, str]) -> list[str]:
    """The root of an environment, the prefixes of its interpreter, and packages installed in editable mode.

    Directories of the system are omitted, and those that are never mounted: a home directory, and those
    of credentials.
    """
    exposable = exposable_in(environment)
    prefixes = [
        path
        for prefix in _interpreter_prefixes(root)
        for path in ([prefix] if exposable(prefix) else [f"{prefix}/bin", f"{prefix}/lib"])
    ]
    found = [root, *prefixes, *_editable_directories(root)]
    return [path for path in dict.fromkeys(found) if os.path.isdir(path) and exposable(path)]


def exposable_in(environment: Mapping[str, str]) -> Callable[[str], bool]:
    """Tells whether a directory may be mounted as a whole; those of the system are visible in every pod anyway."""

    def exposable(path: str) -> bool:
        system = any(within(os.path.normpath(path), each) for each in SYSTEM_DIRECTORIES)
        return not system and not never_mounted(path, environment)

    return exposable


def never_mounted(path: str, environment: Mapping[str, str]) -> str:
    """Why a directory is never mounted as a whole, links resolved; empty if it may be."""
    home = os.path.normpath(environment.get("HOME") or "/root")
    kubeconfigs = [each for each in environment.get("KUBECONFIG", "").split(":") if os.path.isabs(each)]
    credentials = [*(os.path.join(home, name) for name in _CREDENTIALS), *kubeconfigs]
    for each in (os.path.normpath(path), os.path.realpath(path)):
        if each == home or each in _homes():
            return f"{each} is a home directory"
        if each in (*_NEVER_WHOLE, *SYSTEM_DIRECTORIES):
            return f"{each} is a directory of the system"
        if within(home, each):
            return f"{each} contains the home directory"
        for kept in credentials:
            if within(each, kept) or (within(kept, each) and os.path.exists(kept)):
                return f"{each} contains or is part of {kept}, which may hold credentials"
    return ""


def within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _homes() -> set[str]:
    try:
        return {os.path.join("/home", name) for name in os.listdir("/home")}
    except OSError:
        return set()


def _interpreter_prefixes(root: str) -> Iterator[str]:
    """Prefixes of the base interpreter: as pyvenv.cfg names it, and along the links of bin/python."""
    if home := _setting(root, "home"):
        yield os.path.dirname(os.path.normpath(home))
    python = os.path.join(root, "bin", "python")
    for _ in range(_MAX_LINKS):
        try:
            pointed = os.readlink(python)
        except OSError:
            break
        python = os.path.normpath(os.path.join(os.path.dirname(python), pointed))
        if os.path.basename(os.path.dirname(python)) == "bin":
            yield os.path.dirname(os.path.dirname(python))
    real = os.path.realpath(os.path.join(root, "bin", "python"))
    if os.path.basename(os.path.dirname(real)) == "bin":
        yield os.path.dirname(os.path.dirname(real))


def _setting(root: str, name: str) -> str:
    for line in _text(os.path.join(root, "pyvenv.cfg")).splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _editable_directories(root: str) -> Iterator[str]:
    """Directories that .pth files add to the path, and those that setuptools' editable finders map packages to."""
    for site in sorted(glob.glob(os.path.join(glob.escape(root), "lib*", "python3*", "site-packages"))):
        for path in sorted(glob.glob(os.path.join(glob.escape(site), "*.pth"))):
            for line in _text(path).splitlines():
                if os.path.isabs(line.strip()):
                    yield os.path.normpath(line.strip())
        for path in sorted(glob.glob(os.path.join(glob.escape(site), "__editable__*_finder.py"))):
            yield from _mapped_directories(_text(path))


def _mapped_directories(source: str) -> Iterator[str]:
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    for statement in statements:
        match statement:
            case (
                ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict(values=values))
                | ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict(values=values))
            ):
                for value in values:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield _directory_of(value.value)


def _directory_of(path: str) -> str:
    """A package's directory; the directory of a single module."""
    return os.path.dirname(path) if os.path.isfile(path) else os.path.normpath(path)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_PTH_SIZE)
    except OSError:
        return ""

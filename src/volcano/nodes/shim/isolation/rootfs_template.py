"""Root filesystem template of all containers: directories, /etc, read-only mounts of host programs."""

import hashlib
import os
import shutil
from dataclasses import dataclass

from volcano.nodes.shim.isolation import etc, syscalls
from volcano.nodes.shim.isolation.host_programs import HostMounts
from volcano.nodes.shim.isolation.unshare import IDMappings

_SKELETON = {
    "dev": 0o755,
    "proc": 0o555,
    "sys": 0o555,
    "root": 0o700,
    "home": 0o755,
    "mnt": 0o755,
    "media": 0o755,
    "srv": 0o755,
    "tmp": 0o1777,
    "run": 0o755,
    "run/lock": 0o1777,
    "run/sshd": 0o755,
    "var": 0o755,
    "var/cache": 0o755,
    "var/lib": 0o755,
    "var/log": 0o755,
    "var/mail": 0o755,
    "var/spool": 0o755,
    "var/tmp": 0o1777,
}
_LINKS = {"var/run": "/run", "var/lock": "/run/lock"}
_PASSABLE = 0o711  # lets other users traverse root's home where something below it is mounted


@dataclass(frozen=True, slots=True)
class RootfsTemplate:
    """`root` is the lower directory of overlays; `program_mounts` are (source, path in the root)."""

    root: str
    program_mounts: tuple[tuple[str, str], ...]


def build(place: str, shown: HostMounts, users: IDMappings, hidden: str) -> RootfsTemplate:
    """Builds the template in a tmpfs mounted at `place`; the directory `hidden` is not visible in pods."""
    os.makedirs(place, exist_ok=True)
    syscalls.mount("volcano", place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=0755")
    root = os.path.join(place, "root")
    os.mkdir(root, 0o755)
    for path, mode in _SKELETON.items():
        _make(os.path.join(root, path), mode)
    for path, pointed in (*_LINKS.items(), *((path.lstrip("/"), pointed) for path, pointed in shown.links)):
        os.symlink(pointed, os.path.join(root, path))
    etc.copy("/etc", os.path.join(root, "etc"))
    etc.fill(os.path.join(root, "etc"), users, hashlib.sha256(place.encode()).hexdigest()[:32])
    return RootfsTemplate(root, _programs(place, root, shown, hidden))


def copy(template: RootfsTemplate, target: str) -> None:
    """Copies the template, where overlays are not possible."""
    shutil.copytree(template.root, target, symlinks=True)


def _programs(place: str, root: str, shown: HostMounts, hidden: str) -> tuple[tuple[str, str], ...]:
    views: list[tuple[str, str]] = []
    os.mkdir(os.path.join(place, "programs"))
    for number, directory in enumerate(shown.directories):
        view = os.path.join(place, "programs", str(number))
        os.mkdir(view)
        try:
            syscalls.bind(directory, view)
        except OSError:
            continue  # not accessible to this user
        _hide(hidden, directory, view)
        syscalls.add_mount_flags(view, syscalls.MS_RDONLY | syscalls.MS_NODEV)
        for parent in _parents(directory):
            _make(os.path.join(root, parent), _PASSABLE if parent == "root" else _SKELETON.get(parent, 0o755))
        _make(root + directory, 0o755)
        views.append((view, directory.lstrip("/")))
    return tuple(views)


def _hide(hidden: str, directory: str, view: str) -> None:
    inside = os.path.relpath(os.path.realpath(hidden), os.path.realpath(directory))
    if not inside.startswith(".."):
        syscalls.mount("hidden", os.path.join(view, inside), "tmpfs", options="mode=0700,size=4k")


def _parents(directory: str) -> list[str]:
    parts = directory.strip("/").split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _make(path: str, mode: int) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)

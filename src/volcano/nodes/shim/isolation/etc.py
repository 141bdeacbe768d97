"""The /etc of pods: a copy of the world-readable part of this host's, with its own users and host keys."""

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence

from volcano.nodes.shim.isolation.unshare import IDMappings

_LARGEST = 4 << 20
_LEFT_OUT = frozenset((
    "passwd", "passwd-", "group", "group-", "shadow", "shadow-", "gshadow", "gshadow-", "subuid",
    "subuid-", "subgid", "subgid-", "hosts", "hostname", "resolv.conf", "mtab", "machine-id", "fstab",
    "crypttab", "motd",
))  # fmt: skip
# sshd uses the first value of an option, so these precede the host's own settings.
_SSHD_EVERYWHERE = "# A pod's volumes have modes that sshd would not trust.\nStrictModes no\n"
_SSHD_SINGLE_USER = "# There is one user here, and nothing that PAM would ask for.\nUsePAM no\n"
_NO_PASSWORD = "*"


def copy(source: str, target: str) -> None:
    """Copies world-readable files and directories; symbolic links stay links. Unreadable files are left out."""
    os.mkdir(target, 0o755)
    for entry in _entries(source):
        if entry.name in _LEFT_OUT or entry.name.startswith("ssh_host_"):
            continue
        there = os.path.join(target, entry.name)
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), there)
            elif entry.is_dir() and entry.stat().st_mode & 0o005 == 0o005:
                copy(entry.path, there)
            elif entry.is_file() and entry.stat().st_mode & 0o004 and entry.stat().st_size <= _LARGEST:
                _copy_file(entry.path, there, stat.S_IMODE(entry.stat().st_mode) & 0o755)
        except OSError:
            continue


def fill(etc: str, users: IDMappings, machine: str) -> None:
    """Adds the files of a pod: users, groups, machine-id, sshd's settings and host keys."""
    passwd = passwd_lines(_lines("/etc/passwd"), only_root=users.only_root)
    _write(os.path.join(etc, "passwd"), passwd)
    _write(os.path.join(etc, "group"), group_lines(_lines("/etc/group"), only_root=users.only_root))
    _write(
        os.path.join(etc, "shadow"),
        [f"{name_of(line)}:{_NO_PASSWORD}:19000:0:99999:7:::" for line in passwd],
        0o600,
    )
    _write(os.path.join(etc, "machine-id"), [machine])
    _write(os.path.join(etc, "fstab"), [])
    os.symlink("/proc/mounts", os.path.join(etc, "mtab"))
    _prepare_sshd(os.path.join(etc, "ssh"), only_root=users.only_root)


def passwd_lines(host: Sequence[str], *, only_root: bool) -> list[str]:
    """Returns root, the host's service accounts and user 65534; with a single user, sshd's account is root as well."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    lines = [f"root:x:0:0:root:/root:{shell}"]
    for line in host:
        fields = line.split(":")
        if len(fields) != 7 or fields[0] == "root" or not fields[2].isdigit():
            continue
        if only_root and fields[0] == "sshd":
            fields[2:4] = ["0", "0"]
        elif int(fields[2]) != 65534 and (only_root or int(fields[2]) >= 1000):
            continue
        lines.append(":".join([fields[0], "x", *fields[2:]]))
    return lines


def group_lines(host: Sequence[str], *, only_root: bool) -> list[str]:
    """Returns the groups for these users. A group without a mapping is left out: sshd would fail to chown to it."""
    lines = ["root:x:0:"]
    for line in host:
        fields = line.split(":")
        if len(fields) != 4 or fields[0] == "root" or not fields[2].isdigit():
            continue
        if int(fields[2]) == 65534 or not (only_root or int(fields[2]) >= 1000):
            lines.append(f"{fields[0]}:x:{fields[2]}:")
    return lines


def name_of(line: str) -> str:
    return line.split(":", 1)[0]


def _prepare_sshd(directory: str, *, only_root: bool) -> None:
    if not os.path.isdir("/etc/ssh"):
        return
    os.makedirs(directory, exist_ok=True)
    settings = os.path.join(directory, "sshd_config")
    of_host = _lines(settings)
    _write(settings, [_SSHD_EVERYWHERE + (_SSHD_SINGLE_USER if only_root else ""), *of_host])
    generator = shutil.which("ssh-keygen")
    if generator is not None:
        key = os.path.join(directory, "ssh_host_ed25519_key")
        command = [generator, "-q", "-t", "ed25519", "-N", "", "-C", "pods", "-f", key]
        # Without a key only sshd fails, with its own message.
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _copy_file(source: str, target: str, mode: int) -> None:
    with open(source, "rb") as read:
        content = read.read()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _write(path: str, lines: Sequence[str], mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    os.chmod(path, mode)

"""The shim enters the hub's namespaces: its own mounts, network, names, and as an ordinary user its own users too."""

import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass

from volcano.nodes.shim.isolation import syscalls
from volcano.nodes.shim.specs import Mode

_LIKE_HOST = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class Range:
    """`count` users or groups, from `inside` on in the namespace and from `outside` on without."""

    inside: int
    outside: int
    count: int

    def __str__(self) -> str:
        return f"{self.inside} {self.outside} {self.count}"


@dataclass(frozen=True, slots=True)
class Users:
    """Who exists in the hub: everybody (as real root), or the ranges of a user namespace."""

    user_namespace: bool = False
    uids: tuple[Range, ...] = ()
    gids: tuple[Range, ...] = ()

    @property
    def only_root(self) -> bool:
        """There is a single user, and groups cannot be changed."""
        return self.user_namespace and sum(each.count for each in self.uids) == 1

    def has_user(self, number: int) -> bool:
        return not self.user_namespace or _covers(self.uids, number)

    def has_group(self, number: int) -> bool:
        return not self.user_namespace or _covers(self.gids, number)


def enter(mode: Mode) -> Users:
    """Leaves the host's mounts, interprocess communication and host name, for good; the network is left later."""
    users = _enter_user_namespace() if mode is Mode.USERNS else Users()
    syscalls.unshare(_LIKE_HOST)
    # Nothing that is mounted from here on may be seen by the host.
    syscalls.mount("", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    return users


def enter_network() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET)


def _enter_user_namespace() -> Users:
    uid, gid = os.geteuid(), os.getegid()
    for users in (*_wider(uid, gid), _narrow(uid, gid)):
        if _unshare_with(users):
            return users
    raise OSError("no user namespace could be given a user")


def _narrow(uid: int, gid: int) -> Users:
    return Users(user_namespace=True, uids=(Range(0, uid, 1),), gids=(Range(0, gid, 1),))


def _wider(uid: int, gid: int) -> list[Users]:
    """More than one user: as root directly; else with what /etc/subuid grants, if its two programs are there."""
    if uid == 0:
        everybody = _inherited("uid_map"), _inherited("gid_map")
        return [Users(user_namespace=True, uids=everybody[0], gids=everybody[1])]
    if not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return []
    granted_uids, granted_gids = _granted("/etc/subuid", uid), _granted("/etc/subgid", uid)
    if granted_uids is None or granted_gids is None:
        return []
    return [
        Users(
            user_namespace=True, uids=(Range(0, uid, 1), granted_uids), gids=(Range(0, gid, 1), granted_gids)
        )
    ]


def _unshare_with(users: Users) -> bool:
    """One user can be mapped from within; more only by somebody who has stayed outside."""
    if users.only_root:
        _unshare_users()
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", str(users.uids[0]))
        _write("/proc/self/gid_map", str(users.gids[0]))
        return True
    # Tried on a child first: a namespace that nobody could be mapped into cannot be left again.
    if not _can_be_mapped(users):
        return False
    _unshare_mapped_by_child(users)
    return True


def _unshare_users() -> None:
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # else the files that map users belong to root
    syscalls.unshare(syscalls.CLONE_NEWUSER)


def _can_be_mapped(users: Users) -> bool:
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _unshare_users()
            os.write(ready_write, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(ready_write)
    try:
        if not os.read(ready_read, 1):
            return False
        _map_process(child, users)
        return True
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        os.close(ready_read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _unshare_mapped_by_child(users: Users) -> None:
    go_read, go_write = os.pipe()
    target, child = os.getpid(), os.fork()
    if child == 0:
        code = 1
        try:
            os.close(go_write)
            os.read(go_read, 1)  # the pipe's end: the parent has its namespace
            _map_process(target, users)
            code = 0
        finally:
            os._exit(code)
    os.close(go_read)
    try:
        _unshare_users()
    finally:
        os.close(go_write)
        _, status = os.waitpid(child, 0)
    if status:
        raise OSError("the users of the new user namespace could not be mapped")


def _map_process(pid: int, users: Users) -> None:
    for program, table, ranges in (
        ("newuidmap", "uid_map", users.uids),
        ("newgidmap", "gid_map", users.gids),
    ):
        if os.geteuid() == 0:
            _write(f"/proc/{pid}/{table}", "\n".join(str(each) for each in ranges))
        else:
            numbers = [word for each in ranges for word in str(each).split()]
            subprocess.run([program, str(pid), *numbers], check=True, capture_output=True, timeout=5)


def _inherited(table: str) -> tuple[Range, ...]:
    """Every user of the namespace we are in, under the same number."""
    with open(f"/proc/self/{table}", encoding="ascii") as lines:
        return tuple(Range(int(first), int(first), int(count)) for first, _, count in map(str.split, lines))


def _granted(path: str, uid: int) -> Range | None:
    try:
        names = {str(uid), pwd.getpwuid(uid).pw_name}
    except KeyError:
        names = {str(uid)}
    try:
        with open(path, encoding="utf-8") as lines:
            entries = [line.strip().split(":") for line in lines]
    except OSError:
        return None
    for entry in entries:
        if len(entry) == 3 and entry[0] in names and entry[1].isdigit() and entry[2].isdigit():
            return Range(1, int(entry[1]), int(entry[2]))
    return None


def _covers(ranges: tuple[Range, ...], number: int) -> bool:
    return any(each.inside <= number < each.inside + each.count for each in ranges)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)

"""The shim enters the hub's namespaces: its own mounts, network, names, and as an ordinary user its own users too."""

import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass

from volcano.nodes.shim.isolation import syscalls
from volcano.nodes.shim.specs import Mode

_UNSHARED = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class IDMapping:
    """`count` users or groups, from `inside` on in the namespace and from `outside` on without."""

    container_id: int
    host_id: int
    size: int

    def __str__(self) -> str:
        return f"{self.container_id} {self.host_id} {self.size}"


@dataclass(frozen=True, slots=True)
class IDMappings:
    """Who exists in the hub: everybody (as real root), or the ranges of a user namespace."""

    user_namespace: bool = False
    uids: tuple[IDMapping, ...] = ()
    gids: tuple[IDMapping, ...] = ()

    @property
    def only_root(self) -> bool:
        """There is a single user, and groups cannot be changed."""
        return self.user_namespace and sum(each.size for each in self.uids) == 1

    def has_user(self, number: int) -> bool:
        return not self.user_namespace or _mapped(self.uids, number)

    def has_group(self, number: int) -> bool:
        return not self.user_namespace or _mapped(self.gids, number)


def unshare_host_namespaces(mode: Mode) -> IDMappings:
    """Leaves the host's mounts, interprocess communication and host name, for good; the network is left later."""
    users = _unshare_user_namespace() if mode is Mode.USERNS else IDMappings()
    syscalls.unshare(_UNSHARED)
    # Nothing that is mounted from here on may be seen by the host.
    syscalls.mount("", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    return users


def unshare_network() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET)


def _unshare_user_namespace() -> IDMappings:
    uid, gid = os.geteuid(), os.getegid()
    for users in (*_several_users(uid, gid), _single_user(uid, gid)):
        if _unshare_with(users):
            return users
    raise OSError("no user namespace could be given a user")


def _single_user(uid: int, gid: int) -> IDMappings:
    return IDMappings(user_namespace=True, uids=(IDMapping(0, uid, 1),), gids=(IDMapping(0, gid, 1),))


def _several_users(uid: int, gid: int) -> list[IDMappings]:
    """More than one user: as root directly; else with what /etc/subuid grants, if its two programs are there."""
    if uid == 0:
        everybody = _inherited("uid_map"), _inherited("gid_map")
        return [IDMappings(user_namespace=True, uids=everybody[0], gids=everybody[1])]
    if not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return []
    granted_uids, granted_gids = _subordinate_ids("/etc/subuid", uid), _subordinate_ids("/etc/subgid", uid)
    if granted_uids is None or granted_gids is None:
        return []
    return [
        IDMappings(
            user_namespace=True,
            uids=(IDMapping(0, uid, 1), granted_uids),
            gids=(IDMapping(0, gid, 1), granted_gids),
        )
    ]


def _unshare_with(users: IDMappings) -> bool:
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


def _can_be_mapped(users: IDMappings) -> bool:
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


def _unshare_mapped_by_child(users: IDMappings) -> None:
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


def _map_process(pid: int, users: IDMappings) -> None:
    for program, table, ranges in (
        ("newuidmap", "uid_map", users.uids),
        ("newgidmap", "gid_map", users.gids),
    ):
        if os.geteuid() == 0:
            _write(f"/proc/{pid}/{table}", "\n".join(str(each) for each in ranges))
        else:
            numbers = [word for each in ranges for word in str(each).split()]
            subprocess.run([program, str(pid), *numbers], check=True, capture_output=True, timeout=5)


def _inherited(table: str) -> tuple[IDMapping, ...]:
    """Every user of the namespace we are in, under the same number."""
    with open(f"/proc/self/{table}", encoding="ascii") as lines:
        return tuple(
            IDMapping(int(first), int(first), int(count)) for first, _, count in map(str.split, lines)
        )


def _subordinate_ids(path: str, uid: int) -> IDMapping | None:
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
            return IDMapping(1, int(entry[1]), int(entry[2]))
    return None


def _mapped(ranges: tuple[IDMapping, ...], number: int) -> bool:
    return any(each.container_id <= number < each.container_id + each.size for each in ranges)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)

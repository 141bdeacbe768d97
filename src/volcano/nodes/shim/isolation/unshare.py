"""Namespaces of the shim itself: mounts, IPC, UTS, network, and a user namespace for ordinary users."""

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
    """A range of user or group ids, as in a line of /proc/<pid>/uid_map."""

    container_id: int
    host_id: int
    size: int

    def __str__(self) -> str:
        return f"{self.container_id} {self.host_id} {self.size}"


@dataclass(frozen=True, slots=True)
class IDMappings:
    """User and group ids that exist in the shim's namespaces: all, or those mapped into a user namespace."""

    user_namespace: bool = False
    uids: tuple[IDMapping, ...] = ()
    gids: tuple[IDMapping, ...] = ()

    @property
    def only_root(self) -> bool:
        """Whether root is the only user, and groups cannot be changed."""
        return self.user_namespace and sum(each.size for each in self.uids) == 1

    def has_user(self, number: int) -> bool:
        return not self.user_namespace or _mapped(self.uids, number)

    def has_group(self, number: int) -> bool:
        return not self.user_namespace or _mapped(self.gids, number)


def unshare_host_namespaces(mode: Mode) -> IDMappings:
    """Unshares mounts, IPC and UTS for good; the network namespace is unshared later."""
    users = _unshare_user_namespace() if mode is Mode.USERNS else IDMappings()
    syscalls.unshare(_UNSHARED)
    # Mounts made from here on must not propagate to the host.
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
    """Mappings with more than one user: all as root; else those of /etc/subuid, if newuidmap is installed."""
    if uid == 0:
        return [IDMappings(user_namespace=True, uids=_inherited("uid_map"), gids=_inherited("gid_map"))]
    if not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return []
    subordinate_uids, subordinate_gids = (
        _subordinate_ids("/etc/subuid", uid),
        _subordinate_ids("/etc/subgid", uid),
    )
    if subordinate_uids is None or subordinate_gids is None:
        return []
    return [
        IDMappings(
            user_namespace=True,
            uids=(IDMapping(0, uid, 1), subordinate_uids),
            gids=(IDMapping(0, gid, 1), subordinate_gids),
        )
    ]


def _unshare_with(users: IDMappings) -> bool:
    """A single user can be mapped by the process itself; more than one only from outside the namespace."""
    if users.only_root:
        _unshare_users()
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", str(users.uids[0]))
        _write("/proc/self/gid_map", str(users.gids[0]))
        return True
    # Tried in a child first: a user namespace without a mapping cannot be left again.
    if not _can_be_mapped(users):
        return False
    _unshare_mapped_by_child(users)
    return True


def _unshare_users() -> None:
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # else uid_map and gid_map belong to root
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
            os.read(go_read, 1)  # end of file: the parent has unshared
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
            numbers = [number for each in ranges for number in str(each).split()]
            subprocess.run([program, str(pid), *numbers], check=True, capture_output=True, timeout=5)


def _inherited(table: str) -> tuple[IDMapping, ...]:
    """Identity mappings of all ids of the current namespace."""
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

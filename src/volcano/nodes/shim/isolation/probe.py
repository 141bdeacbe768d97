"""Probes whether a mode of isolation works on this machine; also a program: `python -m ... MODE`."""

import os
import signal
import sys
from collections.abc import Callable

from volcano.nodes.shim.isolation import network, rootfs, syscalls, unshare
from volcano.nodes.shim.specs import Failure, Mode

_SYSCTLS = {  # value that denies user namespaces to ordinary users, remedy
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for this Python",
    ),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
}

_AVAILABLE = "available"


def unavailable_reason(mode: Mode) -> str:
    """Returns the reason why `mode` does not work here, found out in a child process; empty when it works."""
    if mode is Mode.PLAIN:
        return ""
    if mode is Mode.NETNS and os.geteuid() != 0:
        return "it needs root"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.write(write, _reason(mode).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        reason = answer.read().decode()
    os.waitpid(child, 0)
    return "" if reason == _AVAILABLE else reason or "the probe ended without output"


def _reason(mode: Mode) -> str:
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("namespaces for users and mounts", lambda: unshare.unshare_host_namespaces(mode)),
        ("a network namespace", unshare.unshare_network),
        ("a network between pods", lambda: network.PodNetwork().build()),
        ("files in memory", lambda: syscalls.mount("probe", "/tmp", "tmpfs")),
        ("terminals", lambda: rootfs.mount_devpts("/tmp", tty_group=False)),
        ("a pid namespace with its own /proc", _try_pid_namespace),
    )
    for what, attempt in steps:
        try:
            attempt()
        except OSError as error:
            return f"{what}: {error.strerror or error}{_hint(mode, what, steps[0][0])}"
        except Failure as failure:
            return f"{what}: {failure}"
    return _AVAILABLE


def _try_pid_namespace() -> None:
    child = syscalls.clone(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | signal.SIGCHLD)
    if child == 0:
        code = 0
        try:
            syscalls.mount("proc", "/proc", "proc")
        except OSError as error:
            code = error.errno or 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


def _hint(mode: Mode, what: str, first: str) -> str:
    if mode is not Mode.USERNS or what != first:
        return ""
    for path, (forbidding, remedy) in _SYSCTLS.items():
        try:
            with open(path, encoding="ascii") as setting:
                if setting.read().strip() == forbidding:
                    return f" (allowed by: {remedy})"
        except OSError:
            continue
    return ""


def main() -> None:
    """Exits 0 when the namespaces and the network of a mode can be made, else writes the error to standard error."""
    # Everything made here ends with this process.
    try:
        unshare.unshare_host_namespaces(Mode(sys.argv[1]))
        unshare.unshare_network()
        network.PodNetwork().build()
    except (OSError, Failure) as error:
        os.write(2, f"{error}\n".encode())
        sys.exit(1)


if __name__ == "__main__":
    main()

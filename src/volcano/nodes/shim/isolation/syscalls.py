"""System calls missing in Python's standard library, through ctypes; errors are raised as OSError."""

import contextlib
import ctypes
import os
import platform
import struct
from typing import NamedTuple

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_PARENT = 0x00008000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 15, 24, 38

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CLOSE_RANGE_CLOEXEC = 4
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_VERSION_3 = 0x20080522


class SyscallNumbers(NamedTuple):
    """System call numbers and constants of a processor architecture."""

    audit_arch: int
    clone: int
    pivot_root: int
    seccomp: int
    setgroups: int
    mount_setattr: int = 442
    close_range: int = 436


SYSCALL_NUMBERS = {
    "x86_64": SyscallNumbers(audit_arch=0xC000003E, clone=56, pivot_root=155, seccomp=317, setgroups=116),
    "aarch64": SyscallNumbers(audit_arch=0xC00000B7, clone=220, pivot_root=41, seccomp=277, setgroups=159),
}

# PyDLL keeps the GIL: a child of `clone` returns holding it, as its parent did.
_libc = ctypes.PyDLL(None, use_errno=True)


def numbers() -> SyscallNumbers:
    """Returns the numbers of this architecture; OSError where they are not known."""
    try:
        return SYSCALL_NUMBERS[platform.machine()]
    except KeyError:
        known = ", ".join(SYSCALL_NUMBERS)
        raise OSError(f"namespaces are known for {known}, not for {platform.machine()}") from None


def clone(flags: int) -> int:
    """Forks into new namespaces: 0 in the child, which must end in exec or `os._exit`."""
    return call(numbers().clone, flags, 0, 0, 0, 0)


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, kind: int) -> None:
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _check(done, target)


def bind(source: str, target: str) -> None:
    """Bind-mounts `source` recursively at `target`."""
    mount(source, target, flags=MS_BIND | MS_REC)


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), target)


def add_mount_flags(target: str, flags: int) -> None:
    """Adds MS_RDONLY, MS_NODEV, ... to the mount at `target` and to every mount below it."""
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)  # the MOUNT_ATTR_ flags have the same values
    try:
        call(
            numbers().mount_setattr,
            _AT_FDCWD,
            os.fsencode(target),
            _AT_RECURSIVE,
            attributes,
            len(attributes),
        )
    except OSError:
        for each in _mounts_at_and_below(target):  # kernels before 5.12
            # Flags locked by a user namespace must be repeated, or the kernel rejects the change.
            kept = os.statvfs(each).f_flag & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
            mount("", each, flags=MS_REMOUNT | MS_BIND | flags | kept)


def pivot_root_here() -> None:
    """Makes the working directory, a mount point, the root and unmounts the old root."""
    call(numbers().pivot_root, b".", b".")
    unmount(".")
    os.chdir("/")


def sethostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))))


def prctl(option: int, value: int | bytes) -> None:
    argument = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    _check(_libc.prctl(ctypes.c_int(option), argument, 0, 0, 0))


def set_capabilities(kept: int) -> None:
    """Sets effective and permitted capabilities to the mask `kept`; none is inheritable."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    _check(_libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)))


def close_on_exec_from(first: int) -> None:
    """Marks all descriptors from `first` on as close-on-exec."""
    try:
        call(numbers().close_range, first, 0xFFFFFFFF, _CLOSE_RANGE_CLOEXEC)
    except OSError:
        for name in os.listdir("/proc/self/fd"):
            if int(name) >= first:
                _set_close_on_exec(int(name))


def close_from(first: int, kept: int = -1) -> None:
    """Closes all descriptors from `first` on except `kept`."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first and int(name) != kept:
            with contextlib.suppress(OSError):  # the descriptor of the directory listing
                os.close(int(name))


def set_seccomp_filter(program: bytes) -> None:
    """Installs a filter for all later system calls; `program` holds classic BPF instructions of eight bytes each."""
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    call(numbers().seccomp, _SECCOMP_SET_MODE_FILTER, 0, described)


def _set_close_on_exec(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the descriptor of the directory listing
        os.set_inheritable(descriptor, False)


def _mounts_at_and_below(target: str) -> list[str]:
    top = os.path.realpath(target)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = {line.split(" ", 5)[4].replace("\\040", " ") for line in table}
    return [top, *sorted(point for point in points if point.startswith(top.rstrip("/") + "/"))]


def call(number: int, *arguments: int | bytes) -> int:
    """Calls a system call by its number."""
    passed = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    result = int(_syscall(ctypes.c_long(number), *passed))
    _check(result)
    return result


def _check(result: int, path: str = "") -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path or None)


_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

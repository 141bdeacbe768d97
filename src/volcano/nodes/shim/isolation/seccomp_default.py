"""The seccomp profile RuntimeDefault: denies system calls that programs in containers do not need.

As in the default profiles of container engines, calls that a capability of the container permits are allowed.
"""

import errno
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from volcano.nodes.shim.isolation import syscalls

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, the low half of the argument
_X32 = 0x40000000  # bit of the calls of another ABI of the same processor
_NEW_NAMESPACES = 0x7E020000  # flags of clone
_AF_VSOCK = 40
_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)


class Calls(NamedTuple):
    """Numbers of the denied system calls of a processor architecture, by the capability that allows them."""

    by_capability: Mapping[str, Collection[int]]
    always: Collection[int]
    clone: int
    socket: int
    personality: int
    clone3: int = 435


# The same numbers on all architectures: open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr,
# quotactl_fd, open_tree_attr.
_NEW_MOUNT_CALLS = (428, 429, 430, 431, 432, 433, 442, 443, 467)
_IO_URING = (425, 426, 427)
_PIDFD_GETFD, _PROCESS_MADVISE, _SET_MEMPOLICY_HOME_NODE = 438, 440, 450

CALLS: Mapping[str, Calls] = {
    "x86_64": Calls(
        by_capability={
            # mount, umount2, unshare, setns, pivot_root, quotactl, sethostname, setdomainname, lookup_dcookie,
            # fanotify_init
            "SYS_ADMIN": (165, 166, 272, 308, 155, 179, 170, 171, 212, 300, *_NEW_MOUNT_CALLS),
            "BPF": (321,),
            "PERFMON": (298,),  # perf_event_open
            "SYS_MODULE": (175, 313, 176),  # init_module, finit_module, delete_module
            "SYS_BOOT": (169, 246, 320),  # reboot, kexec_load, kexec_file_load
            "SYS_TIME": (164, 227),  # settimeofday, clock_settime
            "SYS_PACCT": (163,),  # acct
            "SYS_RAWIO": (172, 173),  # iopl, ioperm
            # mbind, get_mempolicy, set_mempolicy, move_pages, migrate_pages
            "SYS_NICE": (237, 239, 238, 279, 256, _SET_MEMPOLICY_HOME_NODE),
            "SYS_PTRACE": (312, _PIDFD_GETFD, _PROCESS_MADVISE),  # kcmp
            "DAC_READ_SEARCH": (304,),  # open_by_handle_at
            "SYS_TTY_CONFIG": (153,),  # vhangup
            "SYSLOG": (103,),
            "SYS_CHROOT": (161,),
        },
        # add_key, request_key, keyctl, userfaultfd, swapon, swapoff, nfsservctl, _sysctl, uselib, ustat, sysfs,
        # create_module, query_module, get_kernel_syms
        always=(248, 249, 250, 323, 167, 168, 180, 156, 134, 136, 139, 174, 178, 177, *_IO_URING),
        clone=56,
        socket=41,
        personality=135,
    ),
    "aarch64": Calls(
        by_capability={
            "SYS_ADMIN": (40, 39, 97, 268, 41, 60, 161, 162, 18, 262, *_NEW_MOUNT_CALLS),
            "BPF": (280,),
            "PERFMON": (241,),
            "SYS_MODULE": (105, 273, 106),
            "SYS_BOOT": (142, 104, 294),
            "SYS_TIME": (170, 112),
            "SYS_PACCT": (89,),
            "SYS_NICE": (235, 236, 237, 239, 238, _SET_MEMPOLICY_HOME_NODE),
            "SYS_PTRACE": (272, _PIDFD_GETFD, _PROCESS_MADVISE),
            "DAC_READ_SEARCH": (265,),
            "SYS_TTY_CONFIG": (58,),
            "SYSLOG": (116,),
            "SYS_CHROOT": (51,),
        },
        always=(217, 218, 219, 282, 224, 225, 42, *_IO_URING),
        clone=220,
        socket=198,
        personality=92,
    ),
}


def install(machine: str, capabilities: Collection[str]) -> None:
    """Installs the profile for this process and its children. Needs CAP_SYS_ADMIN or no_new_privs."""
    syscalls.set_seccomp_filter(program(machine, capabilities))


def is_known(machine: str) -> bool:
    return machine in CALLS


def program(machine: str, capabilities: Collection[str]) -> bytes:
    """The profile as classic BPF, for a container with these capabilities."""
    arch = syscalls.SYSCALL_NUMBERS[machine].audit_arch
    return b"".join(
        struct.pack("=HBBI", *instruction) for instruction in _instructions(machine, arch, capabilities)
    )


def _instructions(
    machine: str, arch: int, capabilities: Collection[str]
) -> Iterator[tuple[int, int, int, int]]:
    calls = CALLS[machine]
    yield _LOAD, 0, 0, _ARCH
    # The table is for one set of call numbers: programs of other architectures are denied every call.
    yield _EQUAL, 1, 0, arch
    yield _deny()
    yield _LOAD, 0, 0, _NUMBER
    if machine == "x86_64":
        yield _AT_LEAST, 0, 1, _X32
        yield _deny()
    for number in denied_calls(calls, capabilities):
        yield _EQUAL, 0, 1, number
        yield _deny()
    if "SYS_ADMIN" not in capabilities:
        # The flags of clone3 are in memory that a filter cannot read: without it, libraries use clone.
        yield _EQUAL, 0, 1, calls.clone3
        yield _RETURN, 0, 0, _ERRNO | errno.ENOSYS
        yield from _for_call(calls.clone, (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _deny())
    yield from _for_call(calls.socket, (_EQUAL, 0, 1, _AF_VSOCK), _deny())
    yield from _for_call(
        calls.personality,
        *(entry for value in _PERSONALITIES for entry in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))),
        _deny(),
    )
    yield _RETURN, 0, 0, _ALLOW


def denied_calls(calls: Calls, capabilities: Collection[str]) -> list[int]:
    """The calls that are denied whatever their arguments are."""
    limited = (
        number
        for capability, numbers in calls.by_capability.items()
        if capability not in capabilities and not (_BY_ADMIN.get(capability) and "SYS_ADMIN" in capabilities)
        for number in numbers
    )
    return sorted({*limited, *calls.always})


# Capabilities that were split off SYS_ADMIN, which still includes them.
_BY_ADMIN = {"BPF": True, "PERFMON": True, "SYSLOG": True}


def _for_call(number: int, *instructions: tuple[int, int, int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Instructions on the first argument of one call, which is allowed if none of them returns."""
    yield _EQUAL, 0, len(instructions) + 2, number
    yield _LOAD, 0, 0, _FIRST_ARGUMENT
    yield from instructions
    yield _RETURN, 0, 0, _ALLOW


def _deny() -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERRNO | errno.EPERM

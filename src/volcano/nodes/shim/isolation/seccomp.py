"""Seccomp filter that turns setgroups() into a no-op, for user namespaces in which it is denied.

An unprivileged user namespace has a single group and denies setgroups(); servers such as sshd exit when it
fails.
"""

import struct

from volcano.nodes.shim.isolation import syscalls

_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO_0 = 0x7FFF0000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCH = 0, 4


def ignore_setgroups() -> None:
    """Installs the filter. Needs CAP_SYS_ADMIN in its user namespace, or no_new_privs."""
    here = syscalls.numbers()
    syscalls.set_seccomp_filter(program(here.audit_arch, here.setgroups))


def program(arch: int, setgroups: int) -> bytes:
    return b"".join(
        struct.pack("=HBBI", code, if_true, if_false, value)
        for code, if_true, if_false, value in (
            (_LOAD_WORD, 0, 0, _OFFSET_ARCH),
            (_JUMP_IF_EQUAL, 0, 2, arch),
            (_LOAD_WORD, 0, 0, _OFFSET_NUMBER),
            (_JUMP_IF_EQUAL, 1, 0, setgroups),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO_0),
        )
    )

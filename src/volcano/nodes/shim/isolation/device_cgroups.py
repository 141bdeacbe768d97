"""Device rules of a cgroup of version 2: an eBPF program that denies the devices of a driver, except some.

All other devices keep working as before: a container is denied GPUs that are not its own, nothing else.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence

from volcano.nodes.shim.isolation import syscalls

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_ATTACHMENT = 15, 6
_ALLOW_MULTI = 2
_CHARACTER_DEVICE = 2
_ATTRIBUTES_SIZE = 120
_MAX_JUMP = 1 << 14
_ANY_MAJOR = 195  # for the probe: the kernel rejects programs with instructions that are never reached

# Instructions: code, registers (target, source), jump offset, immediate value.
_LOAD_WORD, _AND, _JUMP_IF_EQUAL, _JUMP_IF_NOT_EQUAL, _MOVE, _EXIT = 0x61, 0x57, 0x15, 0x55, 0xB7, 0x95
_RESULT, _CONTEXT, _TYPE, _MAJOR, _MINOR = 0, 1, 2, 3, 4
_TYPE_OFFSET, _MAJOR_OFFSET, _MINOR_OFFSET = 0, 4, 8  # of the fields in the context


def device_program(denied_majors: Iterable[int], allowed: Sequence[tuple[int, int]]) -> bytes:
    """Instructions that deny the character devices of some majors, except the allowed (major, minor) pairs."""
    denied = sorted(set(denied_majors))
    exceptions = [pair for pair in dict.fromkeys(allowed) if pair[0] in denied]
    # Positions: 5 instructions, 2 per exception, 1 per major, then `allow` and `deny` of 2 each.
    allow = 5 + 2 * len(exceptions) + len(denied)
    deny = allow + 2
    if deny > _MAX_JUMP:
        raise ValueError(f"{len(exceptions)} devices are too many for one program")
    program = [
        _instruction(_LOAD_WORD, _TYPE, _CONTEXT, _TYPE_OFFSET),
        _instruction(_AND, _TYPE, value=0xFFFF),
        _instruction(_JUMP_IF_NOT_EQUAL, _TYPE, offset=allow - 3, value=_CHARACTER_DEVICE),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, _MAJOR_OFFSET),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, _MINOR_OFFSET),
    ]
    for major, minor in exceptions:
        program.append(_instruction(_JUMP_IF_NOT_EQUAL, _MAJOR, offset=1, value=major))
        program.append(_instruction(_JUMP_IF_EQUAL, _MINOR, offset=allow - len(program) - 1, value=minor))
    for major in denied:
        program.append(_instruction(_JUMP_IF_EQUAL, _MAJOR, offset=deny - len(program) - 1, value=major))
    for result in (1, 0):
        program += [_instruction(_MOVE, _RESULT, value=result), _instruction(_EXIT)]
    return b"".join(program)


def attach(directory: str, program: bytes) -> None:
    """Applies a program to a cgroup and those below it; it ends with the cgroup. OSError without the privilege."""
    loaded = _load(program)
    try:
        cgroup = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=5I", cgroup, loaded, _CGROUP_DEVICE_ATTACHMENT, _ALLOW_MULTI, 0))
        finally:
            os.close(cgroup)
    finally:
        os.close(loaded)


def unavailable_reason() -> str:
    """Why this process may not restrict devices; empty when it may."""
    try:
        os.close(_load(device_program((_ANY_MAJOR,), ())))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _load(program: bytes) -> int:
    instructions = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "=IIQQ",
        _CGROUP_DEVICE_PROGRAM,
        len(program) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
    )
    return _bpf(_PROG_LOAD, attributes)


def _bpf(command: int, attributes: bytes) -> int:
    number = _BPF_SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"device rules are known for {', '.join(_BPF_SYSCALL)}, not for {platform.machine()}")
    padded = ctypes.create_string_buffer(attributes, _ATTRIBUTES_SIZE)
    return syscalls.call(number, command, ctypes.addressof(padded), _ATTRIBUTES_SIZE)


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, source << 4 | target, offset, value)

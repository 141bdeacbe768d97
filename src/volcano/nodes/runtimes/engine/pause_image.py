"""Pause image for the container that holds a pod's namespaces: one program of a few instructions.

It needs neither a registry nor a compiler. The program ignores SIGCHLD, so that the kernel reaps orphans
where containers share a pid namespace, and sleeps forever.
"""

import io
import struct
import tarfile
from collections.abc import Mapping

IMAGE = "volcano-pause:1"
_BASE = 0x400000
_HEADERS = 64 + 56  # ELF header and program header
_IGNORE = struct.pack("<4Q", 1, 0, 0, 0)  # struct sigaction with SIG_IGN
_SIGCHLD = 17

_X86_64 = bytes.fromhex(
    "b80d000000"  # mov eax, 13 (rt_sigaction)
    "bf11000000"  # mov edi, 17 (SIGCHLD)
    "488d3517000000"  # lea rsi, [rip + 23] (what follows the code)
    "31d2"  # xor edx, edx
    "41ba08000000"  # mov r10d, 8
    "0f05"  # syscall
    "b822000000"  # mov eax, 34 (pause)
    "0f05"  # syscall
    "ebf7"  # jmp to pause
    "90909090"  # padding
)
_AARCH64 = struct.pack(
    "<13I",
    0xD28010C8,  # mov x8, 134 (rt_sigaction)
    0xD2800000 | _SIGCHLD << 5,  # mov x0, 17
    0x10000000 | 1 | 11 << 5,  # adr x1, 11 instructions on (what follows the code)
    0xD2800002,  # mov x2, 0
    0xD2800103,  # mov x3, 8
    0xD4000001,  # svc 0
    0xD2800000,  # mov x0, 0
    0xD2800001,  # mov x1, 0
    0xD2800002,  # mov x2, 0
    0xD2800003,  # mov x3, 0
    0xD2800928,  # mov x8, 73 (ppoll without anything to wait for)
    0xD4000001,  # svc 0
    0x17FFFFFA,  # b to six instructions before
)
# By the engines' names of architectures: the machine number of the ELF header and the code.
_CODE: Mapping[str, tuple[int, bytes]] = {
    "amd64": (62, _X86_64),
    "x86_64": (62, _X86_64),
    "arm64": (183, _AARCH64),
    "aarch64": (183, _AARCH64),
}
ARCHITECTURES = tuple(_CODE)


def program(architecture: str) -> bytes:
    """A static Linux program for an architecture; KeyError for an unknown one."""
    machine, code = _CODE[architecture]
    text = code + _IGNORE
    size = _HEADERS + len(text)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    file_header = identity + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return file_header + segment + text


def archive(architecture: str) -> bytes:
    """Tar archive that the engine imports as an image."""
    made = io.BytesIO()
    content = program(architecture)
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo("pause")
        entry.size, entry.mode = len(content), 0o755
        tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()

"""Keyboard input: terminal bytes to key names."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Escape sequences of special keys; several variants are in use.
SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[C": "right", b"\x1bOC": "right", b"\x1b[D": "left", b"\x1bOD": "left",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home", b"\x1b[F": "end", b"\x1bOF": "end",
    b"\x1b[4~": "end", b"\x1b[5~": "pageup", b"\x1b[6~": "pagedown",
}  # fmt: skip
SINGLE = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x03": "interrupt"}
ESCAPE = b"\x1b"


def keys(data: bytes) -> list[str]:
    """Keys in a sequence of bytes; a lone escape is the escape key, unknown sequences are skipped."""
    found: list[str] = []
    while data:
        for sequence, name in SEQUENCES.items():
            if data.startswith(sequence):
                found.append(name)
                data = data[len(sequence) :]
                break
        else:
            if data[:1] == ESCAPE and data[1:2] in (b"[", b"O"):
                data = _after_unknown(data)
            elif data[:1] == ESCAPE:
                found.append("escape")
                data = data[1:]
            else:
                size = _character(data)
                text = data[:size].decode(errors="replace")
                found += [SINGLE.get(text, text)] if text in SINGLE or text.isprintable() else []
                data = data[size:]
    return found


def _after_unknown(data: bytes) -> bytes:
    """Remaining bytes after an unknown control sequence."""
    for position, byte in enumerate(data[2:], start=2):
        if 0x40 <= byte <= 0x7E:
            return data[position + 1 :]
    return b""


def _character(data: bytes) -> int:
    """Length of the first character in bytes."""
    return next((size for lead, size in ((0xF0, 4), (0xE0, 3), (0xC0, 2)) if data[0] >= lead), 1)


def terminal() -> int | None:
    """File descriptor to read keys from: standard input or the controlling terminal; None without either."""
    if sys.stdin is not None and sys.stdin.isatty():
        return os.dup(sys.stdin.fileno())
    try:
        return os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return None


@contextmanager
def listening(descriptor: int, pressed: Callable[[str], None]) -> Iterator[None]:
    """Calls `pressed` for every key inside the block; restores the terminal afterwards."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 1024)
        if not data:  # the terminal is closed
            loop.remove_reader(descriptor)
            pressed("interrupt")
        for key in keys(data):
            pressed(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        os.close(descriptor)

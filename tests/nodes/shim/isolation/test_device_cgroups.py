"""Device rules: the program computes the stated rule, and the kernel accepts and applies it."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.nodes.shim.isolation import cgroups, device_cgroups
from volcano.nodes.shim.isolation.device_cgroups import device_program

BLOCK, CHARACTER = 1, 2
READ = 2 << 16
numbers = st.integers(0, 300)
pairs = st.tuples(numbers, numbers)


def decide(program: bytes, kind: int, major: int, minor: int) -> bool:
    """Interprets the instructions that the program uses."""
    context = {0: READ | kind, 4: major, 8: minor}
    registers = [0] * 11
    position = 0
    while True:
        code, both, offset, value = struct.unpack_from("=BBhi", program, position * 8)
        target = both & 15
        position += 1
        match code:
            case 0x61:
                registers[target] = context[offset]
            case 0x57:
                registers[target] &= value
            case 0x55 if registers[target] != value:
                position += offset
            case 0x15 if registers[target] == value:
                position += offset
            case 0xB7:
                registers[target] = value
            case 0x95:
                return bool(registers[0])


@given(
    st.lists(numbers, min_size=1, max_size=8),
    st.lists(pairs, max_size=20),
    pairs,
    st.sampled_from((BLOCK, CHARACTER)),
)
def test_character_devices_of_denied_majors_are_denied_except_the_allowed_ones(
    majors: list[int], allowed: list[tuple[int, int]], device: tuple[int, int], kind: int
) -> None:
    program = device_program(majors, allowed)
    for asked in (device, *allowed, *((major, device[1]) for major in majors)):
        expected = kind == BLOCK or asked[0] not in majors or asked in allowed
        assert decide(program, kind, *asked) is expected


def test_more_devices_than_a_program_can_hold_are_rejected() -> None:
    with pytest.raises(ValueError, match="too many"):
        device_program((1,), [(1, minor) for minor in range(1 << 14)])


def test_the_kernel_accepts_and_applies_the_rules() -> None:
    if reason := device_cgroups.unavailable_reason():
        pytest.skip(f"device rules of cgroups: {reason}")
    if not (unified := cgroups.own_unified()):
        pytest.skip("no cgroup of version 2 can be written to")
    directory = os.path.join(unified[0].base, f"volcano-test-{os.getpid()}")
    os.mkdir(directory)
    try:
        device_cgroups.attach(directory, device_program((1, 195, 238), [(1, 3), (195, 0)]))
        child = os.fork()
        if child == 0:
            opened = 0
            try:
                cgroups.join([directory])
                for bit, path in enumerate(("/dev/null", "/dev/zero", "/dev/ptmx")):
                    try:
                        os.open(path, os.O_RDWR)
                        opened |= 1 << bit
                    except OSError:
                        pass
            finally:
                os._exit(opened)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0b101
    finally:
        os.rmdir(directory)

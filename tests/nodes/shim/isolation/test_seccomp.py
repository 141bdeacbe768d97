"""The seccomp profile RuntimeDefault: denied calls fail, and ordinary programs do not notice it."""

import errno
import platform
import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, in_shim
from volcano.nodes.shim.isolation import capabilities, seccomp_default, syscalls
from volcano.nodes.shim.specs import Failure, Mount, Security

PROFILE = Security(default_seccomp=True)
MACHINE = platform.machine()
# Each call with harmless arguments; without a filter, the kernel answers something else than EPERM or succeeds.
PROBE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    print(name, "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
attempt("unshare", {unshare}, 0)
attempt("mount", {mount}, 0, 0, 0, 0, 0)
attempt("keyctl", {keyctl}, 0, -3, 0)
attempt("bpf", {bpf}, 9999, 0, 0)
attempt("userfaultfd", {userfaultfd}, 0)
attempt("io_uring_setup", 425, 1, 0)
attempt("clone3", 435, 0, 0)
attempt("clone into a user namespace", {clone}, 0x10000000 | 17, 0, 0, 0, 0)
attempt("vsock", {socket}, 40, 1, 0)
attempt("personality", {personality}, 0x0040000)
attempt("read of personality", {personality}, 0xffffffff)
attempt("socket", {socket}, 1, 1, 0)
"""
NUMBERS = {
    "x86_64": {
        "unshare": 272, "mount": 165, "keyctl": 250, "bpf": 321, "userfaultfd": 323, "clone": 56, "socket": 41,
        "personality": 135,
    },
    "aarch64": {
        "unshare": 97, "mount": 40, "keyctl": 219, "bpf": 280, "userfaultfd": 282, "clone": 220, "socket": 198,
        "personality": 92,
    },
}  # fmt: skip
# Threads, processes, pipes, a server, memory maps and locks, as programs such as PyTorch use them.
ORDINARY = """
import ctypes, mmap, multiprocessing, os, socket, subprocess, sys, tempfile, threading
assert subprocess.run(["sh", "-c", "echo child | cat"], capture_output=True).stdout == b"child\\n"
results = []
threads = [threading.Thread(target=lambda n=n: results.append(sum(range(n)))) for n in range(64)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
assert len(results) == 64
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert pool.map(abs, range(-8, 0)) == list(range(8, 0, -1))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(b"x"); assert client.recv(1) == b"x"
with tempfile.TemporaryFile() as file:
    file.truncate(4096); mmap.mmap(file.fileno(), 4096)[0:1] = b"y"
os.sched_getaffinity(0); os.getpriority(os.PRIO_PROCESS, 0); os.urandom(8)
assert multiprocessing.get_context("spawn").Process is not None
print("fine", os.getuid())
"""


def output(setting: Setting, script: str, security: Security) -> list[str]:
    def body(shim: ForkedShim) -> list[str]:
        source = shim.directory / "program"
        source.mkdir()
        (source / "main.py").write_text(script)
        ran = shim.run(
            shim.pod(),
            "python3 /program/main.py 2>&1 || /usr/bin/python3 /program/main.py 2>&1",
            mounts=(Mount(str(source), "/program", read_only=True),),
            security=security,
        )
        return ran.lines

    return in_shim(setting, body)


def test_calls_that_containers_do_not_need_are_denied(setting: Setting) -> None:
    lines = output(setting, PROBE.format(**NUMBERS[MACHINE]), PROFILE)
    found = dict(line.rsplit(" ", 1) for line in lines)
    denied = {name for name, result in found.items() if result == "EPERM"}
    assert denied >= {
        "unshare", "mount", "keyctl", "bpf", "userfaultfd", "io_uring_setup", "clone into a user namespace", "vsock",
        "personality",
    }, found  # fmt: skip
    assert (found["clone3"], found["socket"], found["read of personality"]) == ("ENOSYS", "ok", "ok")


def test_without_the_profile_the_same_calls_reach_the_kernel(setting: Setting) -> None:
    lines = output(setting, PROBE.format(**NUMBERS[MACHINE]), Security())
    found = dict(line.rsplit(" ", 1) for line in lines)
    assert (found["unshare"], found["keyctl"], found["personality"]) == ("ok", "ok", "ok")
    assert found["clone3"] != "ENOSYS"


def test_ordinary_programs_run_under_the_profile(setting: Setting) -> None:
    (line,) = output(setting, ORDINARY, PROFILE)
    assert line.startswith("fine")


def test_a_capability_allows_its_calls(setting: Setting) -> None:
    security = Security(default_seccomp=True, add_capabilities=("SYS_ADMIN",))
    found = dict(line.rsplit(" ", 1) for line in output(setting, PROBE.format(**NUMBERS[MACHINE]), security))
    assert (found["unshare"], found["keyctl"]) == ("ok", "EPERM")


def test_a_privileged_container_has_no_profile(setting: Setting) -> None:
    security = Security(default_seccomp=True, privileged=True)
    found = dict(line.rsplit(" ", 1) for line in output(setting, PROBE.format(**NUMBERS[MACHINE]), security))
    assert found["keyctl"] == "ok"


@given(
    st.sampled_from(sorted(seccomp_default.CALLS)),
    st.frozensets(st.sampled_from(capabilities.NAMES)),
    st.integers(0, 500),
    st.sampled_from([0, 17, 40, 0x10000000, 0x20000, 0x0040000, 0xFFFFFFFF]),
)
def test_the_program_decides_as_the_table_says(
    machine: str, held: frozenset[str], number: int, argument: int
) -> None:
    calls, arch = seccomp_default.CALLS[machine], syscalls.SYSCALL_NUMBERS[machine].audit_arch
    program = seccomp_default.program(machine, held)
    result = decision(program, arch, number, argument)
    if number in seccomp_default.denied_calls(calls, held):
        assert result == errno.EPERM
    elif number == calls.clone3 and "SYS_ADMIN" not in held:
        assert result == errno.ENOSYS
    elif number == calls.clone:
        denied = argument & 0x7E020000 and "SYS_ADMIN" not in held
        assert result == (errno.EPERM if denied else 0)
    elif number == calls.socket:
        assert result == (errno.EPERM if argument == 40 else 0)
    elif number == calls.personality:
        assert result == (0 if argument in (0, 0x20000, 0xFFFFFFFF) else errno.EPERM)
    else:
        assert result == 0
    assert decision(program, 0x40000003, number, argument) == errno.EPERM
    if machine == "x86_64":
        assert decision(program, arch, number | 0x40000000, argument) == errno.EPERM


def decision(program: bytes, arch: int, number: int, argument: int) -> int:
    """The error number that a filter returns, 0 when it allows the call, by an interpreter of its instructions."""
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    place, loaded = 0, 0
    while True:
        code, if_true, if_false, value = instructions[place]
        place += 1
        match code:
            case 0x20:
                loaded = {0: number, 4: arch, 16: argument}[value]
            case 0x15:
                place += if_true if loaded == value else if_false
            case 0x35:
                place += if_true if loaded >= value else if_false
            case 0x45:
                place += if_true if loaded & value else if_false
            case 0x06:
                return 0 if value == 0x7FFF0000 else value & 0xFFFF


def test_a_path_that_leads_to_the_keys_is_not_mounted(setting: Setting) -> None:
    """Also when a link was put in its place after the kubelet had checked it."""

    def body(shim: ForkedShim) -> list[str]:
        keys = shim.directory / "keys"
        keys.mkdir()
        link = shim.directory / "link"
        link.symlink_to(keys)
        refused = []
        for source in (keys, link, shim.directory, keys.parent.parent):
            try:
                mount = Mount(str(source), "/host", apart_from=str(keys.resolve()))
                shim.run(shim.pod(source.name or "root"), "ls /host", mounts=(mount,))
                refused.append("mounted")
            except Failure as failure:
                refused.append(failure.message)
        return refused

    for message in in_shim(setting, body):
        assert "it contains or is part of" in message

"""Start and end of programs: errors have the kubelet's reasons and messages; process trees end as a whole."""

import os
import signal
import time

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, exit_code, in_shim
from volcano.nodes.shim.isolation.base import ExecCommand, Stdio
from volcano.nodes.shim.isolation.namespaces import NamespacedSandbox
from volcano.nodes.shim.specs import Failure, Identity, Security

IMPOSSIBLE = {  # command: why it cannot start
    ("nonesuch", "x"): 'exec: "nonesuch": executable file not found in $PATH',
    ("/no/such",): 'exec: "/no/such": stat /no/such: no such file or directory',
    ("/etc/hostname",): 'exec: "/etc/hostname": permission denied',
    ("/etc",): 'exec: "/etc": permission denied',
}

# Signals 32 and 33 are reserved by the C library; processes started by make ignore them.
OF_THE_C_LIBRARY = 0b11 << 31


def test_a_program_that_cannot_start_is_a_start_error(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[tuple[str, str, int]]:
        pod = shim.pod()
        return [
            (*refused(shim, pod, command), shim.run(pod, "exit 3", attempt=1).code) for command in IMPOSSIBLE
        ]

    expected = [("StartError", message, 3) for message in IMPOSSIBLE.values()]
    assert in_shim(setting, body) == expected, "and the next attempt is none the worse"


def refused(shim: ForkedShim, pod: NamespacedSandbox, command: tuple[str, ...]) -> tuple[str, str]:
    try:
        shim.run(pod, command=command)
    except Failure as failure:
        return failure.reason, failure.message
    return "", ""


def test_an_unknown_capability_is_named(setting: Setting) -> None:
    with pytest.raises(Failure, match="FLYING"):
        in_shim(setting, lambda shim: shim.run(shim.pod(), security=Security(add_capabilities=("FLYING",))))


def test_a_pod_directory_that_cannot_be_written_is_a_failed_sandbox(setting: Setting) -> None:
    with pytest.raises(Failure) as raised:
        in_shim(setting, lambda shim: shim.pod(directory="/proc/nowhere"))
    assert raised.value.reason == "FailedCreatePodSandBox"
    assert "default/a" in raised.value.message


def test_programs_are_found_where_path_says(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[list[str], str]:
        pod = shim.pod()
        without = shim.run(pod, 'echo "$PATH"').lines
        own = shim.run(
            pod, command=("echo", "found"), environment={"PATH": "/nowhere:/usr/bin"}, attempt=1
        ).output
        return without, own

    without, own = in_shim(setting, body)
    assert without[0].startswith("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    assert own == "found\n"


def test_the_environment_is_what_was_asked_for(setting: Setting) -> None:
    def body(shim: ForkedShim) -> set[str]:
        return set(shim.run(shim.pod(), command=("env",), environment={"A": "b c", "PATH": "/usr/bin"}).lines)

    assert in_shim(setting, body) == {"A=b c", "PATH=/usr/bin"}


def test_a_working_directory_is_made_when_it_is_missing(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str]:
        pod = shim.pod()
        running = shim.start(pod, "pwd; sleep 100", working_directory="/a/new/place")
        where = running.line()
        inside = running.execute("pwd").output
        running.signal(signal.SIGKILL)
        running.ended()
        return where, inside

    assert in_shim(setting, body) == ("/a/new/place", "/a/new/place\n")


def test_exit_codes_and_signals_come_back(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[int]:
        pod = shim.pod()
        killed = shim.start(pod, "echo up; exec sleep 100", attempt=1)
        killed.line()
        killed.signal(signal.SIGKILL)
        trapped = shim.start(pod, "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", name="other")
        trapped.line()
        trapped.signal(signal.SIGTERM)
        return [shim.run(pod, "exit 42", name="third").code, killed.ended().code, trapped.ended().code]

    assert in_shim(setting, body) == [42, 137, 7]


def test_signals_that_the_shim_ignores_are_not_ignored_in_a_container(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        return shim.run(shim.pod(), command=("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")).lines

    assert {int(line.split()[1], 16) & ~OF_THE_C_LIBRARY for line in in_shim(setting, body)} == {0}


def test_what_a_container_started_ends_with_it_even_daemons(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[int, int]:
        pod = shim.pod()
        running = shim.start(
            pod, f"setsid -f sleep {mark()} </dev/null >/dev/null 2>&1; echo up; exec sleep {mark()}"
        )
        running.line()
        before = eventually(mark(), 2)
        running.signal(signal.SIGKILL)
        running.ended()
        return before, len(sleeping(mark()))

    assert in_shim(setting, body) == (2, 0)


def test_containers_may_share_pids_and_yet_each_ends_as_a_whole(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str, int, int]:
        pod = shim.pod(share_pid=True)
        other = f"{mark()}7"
        one = shim.start(
            pod,
            f"setsid -f sleep {mark()} </dev/null >/dev/null 2>&1; echo up; exec sleep {mark()}",
            name="one",
        )
        one.line()
        two = shim.start(pod, f"echo $$; ps -e -o args=; sleep {other}", name="two")
        pid, listing = two.line(), "".join(f"{two.line()}\n" for _ in range(4))
        one.signal(signal.SIGKILL)
        one.ended()
        left_of_one, left_of_two = eventually(mark(), 0), eventually(other, 1)
        two.signal(signal.SIGKILL)
        two.ended()
        return pid, listing, left_of_one, left_of_two

    pid, listing, left_of_one, left_of_two = in_shim(setting, body)
    assert pid != "1"
    assert "setsid" not in listing
    assert listing.count("sleep") >= 2
    assert (left_of_one, left_of_two) == (0, 1)


def test_a_pod_with_the_host_s_pids_sees_them(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, int, int]:
        pod = shim.pod(host_pid=True)
        running = shim.start(
            pod, f"setsid -f sleep {mark()} </dev/null >/dev/null 2>&1; echo $$; sleep {mark()}"
        )
        shown, pid = running.line(), running.pid
        running.signal(signal.SIGKILL)
        running.ended()
        return shown, pid, eventually(mark(), 0)

    shown, pid, left = in_shim(setting, body)
    assert shown == str(pid)
    assert left == 0


def test_a_pod_may_share_memory_with_the_host(as_root: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        look = "stat -Lc %i /proc/self/ns/ipc"
        shared, own = shim.pod("a", host_ipc=True), shim.pod("b")
        return [shim.run(shared, look).output.strip(), shim.run(own, look).output.strip()]

    shared, own = in_shim(as_root, body)
    assert shared == str(os.stat("/proc/self/ns/ipc").st_ino) != own


def test_a_further_process_is_in_the_same_container(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[list[str], list[str], str]:
        look = "for n in cgroup ipc mnt net pid uts; do readlink /proc/self/ns/$n; done"
        who = Identity(user=1000, group=1000) if setting.user == 0 else Identity()
        running = shim.start(shim.pod(), f"echo x >/tmp/x; {look}; echo; sleep 100", identity=who)
        first = list(iter(running.line, ""))
        second = running.execute(look).lines
        third = running.execute(
            "cat /tmp/x; id -u; grep CapBnd /proc/self/status; echo $V; exit 5", {"V": "w"}
        )
        running.signal(signal.SIGKILL)
        running.ended()
        return first, second, f"{third.output}{third.code}"

    first, second, third = in_shim(setting, body)
    assert len(first) == 6
    assert first == second
    user = "1000" if setting.user == 0 else "0"
    assert third == f"x\n{user}\nCapBnd:\t00000000a80425fb\nw\n5"


def test_what_a_further_process_started_ends_with_it_when_it_is_killed(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[int, int]:
        running = shim.start(shim.pod(), "echo up; sleep 100")
        running.line()
        further = running.started(("sh", "-c", f"sleep {mark()} & echo up; sleep {mark()}"))
        further.line()
        before = eventually(mark(), 2)
        further.signal(signal.SIGKILL)
        os.waitpid(further.pid, 0)
        os.close(further.output)
        after = eventually(mark(), 0)
        running.signal(signal.SIGKILL)
        running.ended()
        return before, after

    assert in_shim(setting, body) == (2, 0)


def test_exec_in_an_exited_container_is_rejected(setting: Setting) -> None:
    def body(shim: ForkedShim) -> None:
        running = shim.start(shim.pod(), "true")
        running.ended()
        running.execute("true")

    with pytest.raises(Failure, match="not running"):
        in_shim(setting, body)


def test_a_missing_further_program_is_a_start_error(setting: Setting) -> None:
    def body(shim: ForkedShim) -> str:
        running = shim.start(shim.pod(), "echo up; sleep 100")
        running.line()
        try:
            running.started(("nonesuch",))
        except Failure as failure:
            return f"{failure.reason}: {failure.message}"
        finally:
            running.signal(signal.SIGKILL)
            running.ended()
        return ""

    assert in_shim(setting, body) == 'StartError: exec: "nonesuch": executable file not found in $PATH'


def test_a_terminal_is_one_of_the_container_s_own(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str]:
        pod = shim.pod()
        master, slave = shim.isolation.open_terminal(pod, 0)
        spec = shim.container(pod, "tty; stty size; echo up >/dev/tty; read line; echo got $line", tty=True)
        pid = shim.isolation.start(pod, spec, Stdio(slave, slave, slave, tty=True))
        os.write(master, b"hello\n")
        first = read_until(master, b"got hello")
        further_master, further_slave = shim.isolation.open_terminal(pod, 0)
        os.close(further_master)
        os.close(further_slave)
        os.close(slave)
        os.waitpid(pid, 0)
        shim.isolation.finish(pod, spec, pid)
        os.close(master)
        return first, executed_in_terminal(shim)

    first, second = in_shim(setting, body)
    assert all(each in first for each in ("/dev/pts/0", "0 0", "up"))
    assert all(each in second for each in ("/dev/pts/0", "works"))


def executed_in_terminal(shim: ForkedShim) -> str:
    running = shim.start(shim.pod("b"), "echo up; sleep 100")
    running.line()
    master, slave = shim.isolation.open_terminal(running.pod, running.pid)
    command = ExecCommand(("sh", "-c", "tty; echo works >/dev/tty"), {})
    stdio = Stdio(slave, slave, slave, tty=True)
    pid = shim.isolation.execute(running.pod, running.spec, running.pid, command, stdio)
    os.close(slave)
    seen = read_until(master, b"works")
    assert exit_code(os.waitpid(pid, 0)[1]) == 0
    os.close(master)
    running.signal(signal.SIGKILL)
    running.ended()
    return seen


def read_until(descriptor: int, end: bytes) -> str:
    seen = b""
    while end not in seen:
        seen += os.read(descriptor, 4096)
    return seen.decode()


def mark() -> str:
    """A duration of sleep that no other test uses."""
    return str(10**8 + os.getpid())


def eventually(seconds: str, wanted: int) -> int:
    """How many run `sleep seconds`, once there are as many as wanted or five seconds are over."""
    for _ in range(500):
        if len(sleeping(seconds)) == wanted:
            break
        time.sleep(0.01)
    return len(sleeping(seconds))


def sleeping(seconds: str) -> list[int]:
    """The processes of this machine that run `sleep seconds`; zombies run nothing."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as line:
                if line.read() == f"sleep\0{seconds}\0".encode():
                    found.append(int(name))
        except OSError:
            continue
    return found

"""Parsing of engines' output: states, logs, names, usage; and the pause image."""

import os
import platform
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.nodes.kubelet.logs.files import LogFilter
from volcano.nodes.runtimes.engine import pause_image
from volcano.nodes.runtimes.engine.container_inspect import parse_engine_time, parse_inspect
from volcano.nodes.runtimes.engine.hosts_files import PodSandbox, hosts_text, resolv_text, write_in_place
from volcano.nodes.runtimes.engine.images import default_policy
from volcano.nodes.runtimes.engine.output import (
    LogPosition,
    TimestampedStream,
    last_positions,
    nanoseconds,
    rotate,
)
from volcano.nodes.runtimes.engine.usage import cgroup_usage, oom_file, oom_killed
from volcano.nodes.shim.specs import SandboxSpec

STAMP = b"2026-11-15T13:45:52.818282023Z"


def test_an_exited_container_has_times_code_and_reason() -> None:
    found = {
        "Id": "abc",
        "State": {
            "Running": False,
            "Pid": 0,
            "ExitCode": 137,
            "OOMKilled": True,
            "StartedAt": "2026-11-15T13:45:52.818406263Z",
            "FinishedAt": "2026-11-15T14:45:53.5+01:00",
        },
        "Config": {
            "Labels": {"volcano.sh/pod-uid": "u", "volcano.sh/container": "c", "volcano.sh/attempt": "3"}
        },
    }
    state = parse_inspect(found).state()
    assert (state.pod, state.name, state.attempt) == ("u", "c", 3)
    assert (state.exit_code, state.reason, state.running) == (137, "OOMKilled", False)
    assert state.finished - state.started == pytest.approx(0.681594, abs=1e-5)


def test_a_container_that_never_ran_has_no_start() -> None:
    never = {
        "State": {"StartedAt": "0001-01-01T00:00:00Z"},
        "Config": {"Labels": {"volcano.sh/part": "container"}},
    }
    assert parse_inspect(never).started == 0.0
    assert not parse_inspect(never).is_container
    assert parse_engine_time("gibberish") == 0.0


@given(
    st.lists(st.binary(max_size=50).filter(lambda text: b"\n" not in text), max_size=8),
    st.lists(st.integers(1, 60), max_size=30),
)
def test_output_is_the_same_however_it_comes_in_pieces(lines: list[bytes], cuts: list[int]) -> None:
    text = b"".join(STAMP + b" " + line + b"\n" for line in lines)
    stream, found = TimestampedStream(), []
    for size in cuts:
        found += stream.parse(text[:size])
        text = text[size:]
    found += stream.parse(text)
    found += stream.parse(b"", last=True)
    assert found == [(STAMP, line + b"\n") for line in lines]


def test_a_long_line_that_docker_stamped_in_pieces_is_one_again() -> None:
    piece = b"x" * (16 << 10)
    text = STAMP + b" " + piece + STAMP + b" " + b"rest\n" + STAMP + b" next\n"
    found = TimestampedStream().parse(text + b"", last=True)
    assert [content for _, content in found] == [piece, b"rest\n", b"next\n"]


def test_an_unfinished_line_is_distinguished_from_messages_of_the_engine() -> None:
    found = TimestampedStream().parse(b"Error: no such container\n" + STAMP + b" prompt> ", last=True)
    assert found == [(STAMP, b"prompt> ")]


def test_where_a_log_was_left_off_is_found_for_each_stream(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    assert last_positions(str(log)) == {"stdout": LogPosition(), "stderr": LogPosition()}
    log.write_bytes(
        b"2026-11-15T13:45:52.000000001Z stdout F a\n"
        b"2026-11-15T13:45:53.000000001Z stderr F b\n"
        b"2026-11-15T13:45:54.000000001Z stdout F c\n"
        b"2026-11-15T13:45:54.000000001Z stdout F d\n"
    )
    marks = last_positions(str(log))
    assert marks["stdout"] == LogPosition(b"2026-11-15T13:45:54.000000001", 2)
    assert marks["stderr"] == LogPosition(b"2026-11-15T13:45:53.000000001", 1)


def test_a_stream_that_is_not_in_the_end_of_a_long_log_was_there_before(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    line = b"2026-11-15T13:45:54.000000001Z stdout F " + b"x" * 1000 + b"\n"
    log.write_bytes(line * 2000)
    assert last_positions(str(log))["stderr"] == LogPosition(b"2026-11-15T13:45:54.000000001", 0)


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (b"2026-11-15T13:45:52.5Z", True),
        (b"2026-11-15T13:45:52.5+00:00", True),
        (b"2026-11-15T22:45:52.5+09:00", True),
        (b"2026-11-15T14:45:52.4+01:00", False),
        (b"2026-11-15T08:45:52.400000000-05:00", False),
    ],
)
def test_since_when_is_asked_in_one_zone_and_answered_from_logs_in_any(time: bytes, shown: bool) -> None:
    wanted = LogFilter(since=b"2026-11-15T13:45:52.500000")
    line = (time.replace(b".5", b".500000").replace(b".4+", b".400000+")) + b" stdout F text"
    assert wanted.render(line) == (b"text\n" if shown else b"")


def test_times_are_kept_to_the_nanosecond() -> None:
    assert nanoseconds(b"1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert nanoseconds(b"1970-01-01T01:00:01.000000007+01:00") == 1_000_000_007


def test_a_log_that_is_too_long_is_rotated_and_its_writer_notified(tmp_path: Path) -> None:
    log, monitor = tmp_path / "0.log", tmp_path / "ctl"
    os.mkfifo(monitor)
    log.write_text("x" * 100)
    reading = os.open(monitor, os.O_RDONLY | os.O_NONBLOCK)
    assert not rotate(log, monitor, 101, 3)
    for number in range(4):
        log.write_text(f"{number}" * 100)
        assert rotate(log, monitor, 100, 3)
        assert os.read(reading, 100) == b"2 0 0\n"
    os.close(reading)
    left = {path.name: path.read_text()[:1] for path in tmp_path.glob("0.log*")}
    assert left == {"0.log.1": "3", "0.log.2": "2"}


def test_a_log_without_a_writer_is_not_rotated(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("x" * 100)
    os.mkfifo(tmp_path / "ctl")
    assert not rotate(tmp_path / "0.log", tmp_path / "ctl", 10, 3)
    assert (tmp_path / "0.log").exists()


def sandbox(uid: str, namespace: str = "ns", **more: object) -> SandboxSpec:
    names = (f"{uid}.job.{namespace}.svc.cluster.local",)
    plain = {"hosts": "{address}\tme\n", "names": names, **more}
    return SandboxSpec(uid, namespace, uid, "n", "/d", uid, **plain)  # type: ignore[arg-type]


def test_a_hosts_file_has_every_form_of_every_pods_names_and_of_their_service() -> None:
    own, other = PodSandbox(sandbox("a"), "10.0.0.1"), PodSandbox(sandbox("b"), "10.0.0.2")
    lines = hosts_text(own, [own, other]).splitlines()
    assert lines[0] == "10.0.0.1\tme"
    assert "10.0.0.2\tb.job.ns.svc.cluster.local b.job.ns.svc b.job.ns b.job" in lines
    service = [line.split("\t")[0] for line in lines if line.endswith("job.ns job")]
    assert service == ["10.0.0.1", "10.0.0.2"]


def test_pods_of_another_namespace_are_not_known_by_short_names() -> None:
    own, far = PodSandbox(sandbox("a"), "10.0.0.1"), PodSandbox(sandbox("b", "far"), "10.0.0.2")
    assert "10.0.0.2\tb.job.far.svc.cluster.local b.job.far.svc b.job.far\n" in hosts_text(own, [own, far])


def test_a_pod_without_an_address_is_not_named_to_others_and_a_host_network_pod_keeps_its_file() -> None:
    own, lone = (
        PodSandbox(sandbox("a"), ""),
        PodSandbox(sandbox("h", hosts="as it is\n", host_network=True), ""),
    )
    assert hosts_text(own, [own, lone]) == "127.0.0.1\tme\n"
    assert hosts_text(lone, [PodSandbox(sandbox("a"), "10.0.0.1")]) == "as it is\n"


def test_unserved_name_servers_are_left_out() -> None:
    text = "search ns.svc.cluster.local\nnameserver 10.96.0.10\nnameserver 192.0.2.1\n"
    assert resolv_text(text, ["10.96.0.10"]) == "search ns.svc.cluster.local\nnameserver 192.0.2.1\n"
    assert resolv_text("search a\nnameserver 10.96.0.10\n", ["10.96.0.10"]) == ""


def test_a_file_that_is_mounted_is_written_over_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    write_in_place(path, "a long first text\n")
    inode = path.stat().st_ino
    write_in_place(path, "short\n")
    assert (path.read_text(), path.stat().st_ino) == ("short\n", inode)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busy", "Always"),
        ("busy:latest", "Always"),
        ("busy:1.0", "IfNotPresent"),
        ("host:5000/busy", "Always"),
        ("host:5000/busy:1", "IfNotPresent"),
        ("busy@sha256:abc", "IfNotPresent"),
    ],
)
def test_an_image_is_asked_for_again_unless_its_tag_says_which(image: str, policy: str) -> None:
    assert default_policy(image) == policy


def test_usage_is_read_from_control_groups_of_both_versions(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    for pid, text in (("1", "0::/pod\n"), ("2", "3:cpuacct,cpu:/old\n2:memory:/old\n0::/\n")):
        (proc / pid).mkdir(parents=True)
        (proc / pid / "cgroup").write_text(text)
    files = {
        "pod/cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
        "pod/memory.current": "5000\n",
        "pod/memory.stat": "anon 1\ninactive_file 1000\n",
        "cpuacct/old/cpuacct.usage": "2500000000\n",
        "memory/old/memory.usage_in_bytes": "7000\n",
        "memory/old/memory.stat": "total_inactive_file 500\n",
        "memory/old/memory.oom_control": "under_oom 0\noom_kill 0\n",
        "pod/memory.events": "oom 1\noom_kill 2\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert cgroup_usage(1, proc=proc, root=root) == (1.5, 4000)
    assert cgroup_usage(2, proc=proc, root=root) == (2.5, 6500)
    assert cgroup_usage(3, proc=proc, root=root) is None
    killed = [oom_killed(oom_file(pid, proc=proc, root=root)) for pid in (1, 2, 3)]
    assert killed == [True, False, False]


def test_the_pause_program_sleeps_and_has_the_kernel_reap_for_it(tmp_path: Path) -> None:
    if platform.machine() not in pause_image.ARCHITECTURES:
        pytest.skip(f"no pause program for {platform.machine()}")
    path = tmp_path / "pause"
    path.write_bytes(pause_image.program(platform.machine()))
    path.chmod(0o755)
    process = subprocess.Popen([path])
    try:
        status = ""
        for _ in range(200):
            status = Path(f"/proc/{process.pid}/status").read_text()
            ignored = int(status.split("SigIgn:")[1].split()[0], 16)
            if ignored & 1 << 16 and "State:\tS" in status:
                break
        assert ignored & 1 << 16, "SIGCHLD is ignored"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("architecture", pause_image.ARCHITECTURES)
def test_the_pause_programs_code_ends_where_its_data_is_looked_for(architecture: str) -> None:
    text = pause_image.program(architecture)
    assert text[:4] == b"\x7fELF"
    assert text[-32:] == pause_image._IGNORE
    assert len(text) < 250

"""Decisions without system calls: capabilities, host mounts, users, seccomp filters."""

import os
import struct
import sys
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import NOBODY, become, in_child
from volcano.nodes.shim.isolation import capabilities, etc, host_programs, seccomp, syscalls
from volcano.nodes.shim.isolation.probe import unavailable_reason
from volcano.nodes.shim.isolation.unshare import IDMapping, IDMappings
from volcano.nodes.shim.specs import Failure, Mode, Security


def test_the_usual_capabilities_are_those_of_container_engines() -> None:
    assert capabilities.mask(capabilities.DEFAULT) == 0xA80425FB
    assert capabilities.NAMES.index("SYS_ADMIN") == 21
    assert capabilities.NAMES.index("CHECKPOINT_RESTORE") == 40


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        pytest.param(
            Security(privileged=True, drop_capabilities=("ALL",)), set(capabilities.NAMES), id="privileged"
        ),
        pytest.param(Security(add_capabilities=("ALL",)), set(capabilities.NAMES), id="all"),
        pytest.param(
            Security(add_capabilities=("ALL",), drop_capabilities=("KILL",)),
            set(capabilities.NAMES) - {"KILL"},
            id="all but one",
        ),
        pytest.param(
            Security(add_capabilities=("cap_bpf",), drop_capabilities=("ALL",)),
            {"BPF"},
            id="in other letters",
        ),
    ],
)
def test_added_counts_for_more_than_dropped(security: Security, expected: set[str]) -> None:
    assert capabilities.effective(security) == expected


def test_an_unknown_capability_is_rejected() -> None:
    with pytest.raises(Failure, match="'TELEPORT'"):
        capabilities.effective(Security(drop_capabilities=("TELEPORT",)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for directory in (
        ".cargo/bin",
        ".cargo/registry",
        ".local/bin",
        ".local/share",
        ".local/lib",
        "bin",
        "conda/bin",
    ):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "conda/lib").mkdir()
    (tmp_path / "conda/secrets").mkdir()
    return tmp_path


def shown_below(home: Path, *path: str) -> set[str]:
    environment = {"HOME": str(home), "PATH": ":".join(str(home / entry) for entry in path)}
    directories = host_programs.host_mounts(environment).directories
    return {os.path.relpath(each, home) for each in directories if each.startswith(f"{home}/")}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(".cargo/bin", {".cargo/bin"}, id="programs, not what is kept beside them"),
        pytest.param("conda/bin", {"conda/bin", "conda/lib"}, id="with their libraries"),
        pytest.param(".local/bin", {".local/bin", ".local/lib"}, id="but nothing shared of a user's own"),
        pytest.param("bin", {"bin"}, id="a home is never shown whole"),
        pytest.param("", set(), id="not even when it is in PATH"),
        pytest.param("missing/bin", set(), id="nothing that is not there"),
    ],
)
def test_of_what_path_names_only_programs_are_shown(home: Path, entry: str, expected: set[str]) -> None:
    assert shown_below(home, entry) == expected


def test_this_python_is_shown_and_relative_entries_of_path_are_not(home: Path) -> None:
    shown = host_programs.host_mounts({"HOME": str(home), "PATH": "bin:.:"}).directories
    assert any(sys.base_prefix == each or sys.base_prefix.startswith(f"{each}/") for each in shown)
    assert all(os.path.isabs(each) for each in shown)


def test_a_path_begins_with_the_standard_one_and_names_what_is_shown(home: Path) -> None:
    path = host_programs.default_path(
        {"HOME": str(home), "PATH": f"/usr/bin:{home}/.cargo/bin:{home}/missing"}
    ).split(":")
    assert ":".join(path[:6]) == host_programs.STANDARD_PATH
    assert f"{home}/.cargo/bin" in path
    assert f"{home}/missing" not in path
    assert len(path) == len(set(path))


HOST_USERS = [
    "root:x:0:0:Mum:/root:/bin/zsh",
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    "sshd:x:104:65534::/run/sshd:/usr/sbin/nologin",
    "alice:x:1000:1000:Alice:/home/alice:/bin/bash",
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    "nonsense",
]


def test_people_of_the_host_are_not_users_of_a_pod() -> None:
    names = [etc.name_of(line) for line in etc.passwd_lines(HOST_USERS, only_root=False)]
    assert names == ["root", "daemon", "sshd", "nobody"]


def test_where_there_is_one_user_sshd_is_root_as_well() -> None:
    lines = etc.passwd_lines(HOST_USERS, only_root=True)
    assert [line.split(":")[:4] for line in lines] == [
        ["root", "x", "0", "0"],
        ["sshd", "x", "0", "0"],
        ["nobody", "x", "65534", "65534"],
    ]


def test_groups_that_do_not_exist_are_not_named() -> None:
    host = ["root:x:0:", "tty:x:5:alice", "users:x:1000:", "nogroup:x:65534:"]
    assert etc.group_lines(host, only_root=True) == ["root:x:0:", "nogroup:x:65534:"]
    assert etc.group_lines(host, only_root=False) == ["root:x:0:", "tty:x:5:", "nogroup:x:65534:"]


def test_only_world_readable_files_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "etc"
    (source / "open").mkdir(parents=True)
    (source / "closed").mkdir()
    (source / "closed/inside").write_text("x")
    (source / "open/file").write_text("x")
    (source / "secret").write_text("x")
    (source / "hosts").write_text("x")
    (source / "link").symlink_to("/nowhere")
    (source / "secret").chmod(0o640)
    (source / "closed").chmod(0o700)
    os.mkfifo(source / "pipe")
    etc.copy(str(source), str(tmp_path / "copy"))
    found = sorted(str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*"))
    assert found == ["link", "open", "open/file"]


@pytest.mark.parametrize("name", sorted(syscalls.SYSCALL_NUMBERS))
def test_the_filter_is_for_one_call_of_one_architecture(name: str) -> None:
    machine = syscalls.SYSCALL_NUMBERS[name]
    written = seccomp.program(machine.audit_arch, machine.setgroups)
    assert judged(written, machine.audit_arch, machine.setgroups) == "errno 0"
    assert judged(written, machine.audit_arch, machine.setgroups + 1) == "allowed"
    assert judged(written, 0x40000003, machine.setgroups) == "allowed"


def judged(program: bytes, arch: int, number: int) -> str:
    """Result of the filter, by an interpreter of its three instructions."""
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    place, loaded = 0, 0
    while True:
        code, if_true, if_false, value = instructions[place]
        place += 1
        match code:
            case 0x20:
                loaded = {0: number, 4: arch}[value]
            case 0x15:
                place += if_true if loaded == value else if_false
            case 0x06:
                return {0x7FFF0000: "allowed", 0x00050000: "errno 0"}[value]


def test_users_of_a_namespace_are_those_of_its_ranges() -> None:
    alone = IDMappings(user_namespace=True, uids=(IDMapping(0, 1000, 1),), gids=(IDMapping(0, 1000, 1),))
    many = IDMappings(
        user_namespace=True,
        uids=(IDMapping(0, 1000, 1), IDMapping(1, 100000, 65536)),
        gids=(IDMapping(0, 1000, 1),),
    )
    assert alone.only_root
    assert not many.only_root
    assert [IDMappings().has_user(5), alone.has_user(5), many.has_user(5), many.has_user(70000)] == [
        True,
        False,
        True,
        False,
    ]
    assert [IDMappings().has_group(5), many.has_group(5), many.has_group(0)] == [True, False, True]


def test_plain_processes_are_always_available() -> None:
    assert unavailable_reason(Mode.PLAIN) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can let go of root's powers")
def test_an_unavailable_mode_has_a_reason() -> None:
    def as_nobody() -> str:
        become(NOBODY)
        return unavailable_reason(Mode.NETNS)

    def without_capabilities() -> str:
        syscalls.set_capabilities(0)
        return unavailable_reason(Mode.NETNS)

    assert in_child(as_nobody) == "it needs root"
    assert in_child(without_capabilities) == "namespaces for users and mounts: Operation not permitted"


def test_the_probe_leaves_this_process_in_its_namespaces() -> None:
    before = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    mounts = Path("/proc/self/mounts").read_text()
    unavailable_reason(Mode.NETNS)
    unavailable_reason(Mode.USERNS)
    assert {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")} == before
    assert Path("/proc/self/mounts").read_text() == mounts

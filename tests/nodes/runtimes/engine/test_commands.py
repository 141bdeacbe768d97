"""Command lines of the engines, and whether the engines' own programs accept them."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine.commands import (
    DOCKER,
    PODMAN,
    ClusterRef,
    EngineCapabilities,
    EngineProfile,
)
from volcano.nodes.shim.specs import ContainerSpec, GpuAccess, Identity, Mount, SandboxSpec, Security

OURS = ClusterRef("c0ffee", 0)
SANDBOX = SandboxSpec("u1", "ns", "pod", "local-0", "/data/pods/u1", "pod-0")
EVERYTHING = ContainerSpec(
    "u1",
    "main",
    2,
    "image:1",
    ("run", "--fast", "two words"),
    environment={"TOKEN": "secret", "PATH": "/own", "LINES": "a\nb"},
    working_directory="/work dir",
    mounts=(Mount("/a,b", "/in"), Mount("/c", "/out", read_only=True)),
    identity=Identity(1000, 1001, (5, 6)),
    security=Security(False, True, True, ("NET_ADMIN",), ("ALL",)),
    cpu_request=0.5,
    cpu_limit=1.5,
    memory_limit=1 << 30,
    cpus=(0, 2),
    stdin=True,
    tty=True,
    log_path="/data/pods/u1/containers/main/2.log",
)


def created(
    profile: EngineProfile, spec: ContainerSpec, sandbox: SandboxSpec = SANDBOX, **capabilities: object
) -> list[str]:
    abilities = EngineCapabilities(**capabilities)  # type: ignore[arg-type]
    return commands.create_container(profile, OURS, abilities, sandbox, spec, spec.mounts)


@pytest.mark.parametrize("profile", [PODMAN, DOCKER], ids=lambda each: each.name)
def test_everything_a_container_asks_for_is_in_its_command_line(profile: EngineProfile) -> None:
    words = created(profile, EVERYTHING)
    assert words[-4:] == ["--entrypoint=run", "image:1", "--fast", "two words"]
    assert {
        "--name=volcano-c0ffee-u1-main-2",
        "--label=volcano.sh/cluster=c0ffee",
        "--label=volcano.sh/attempt=2",
        "--network=container:volcano-c0ffee-u1",
        "--ipc=container:volcano-c0ffee-u1",
        "--workdir=/work dir",
        '--mount=type=bind,"source=/a,b",target=/in',
        "--mount=type=bind,source=/c,target=/out,readonly",
        "--user=1000:1001",
        "--group-add=5",
        "--group-add=6",
        "--cap-add=NET_ADMIN",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--read-only",
        "--memory=1073741824b",
        "--memory-swap=1073741824b",
        "--cpus=1.5",
        "--cpu-shares=512",
        "--cpuset-cpus=0,2",
        "--interactive",
        "--tty",
    } <= set(words)


def test_processes_are_limited_where_the_engine_can_limit_anything() -> None:
    limited = replace(SANDBOX, pids_limit=100)
    assert "--pids-limit=100" in created(PODMAN, EVERYTHING, limited)
    assert not [word for word in created(PODMAN, EVERYTHING, limited, limits=False) if "pids" in word]


def test_cpus_are_left_out_where_the_engine_cannot_limit_them() -> None:
    assert not [word for word in created(PODMAN, EVERYTHING, cpusets=False) if "cpuset" in word]
    assert not [word for word in created(PODMAN, EVERYTHING, limits=False) if "cpuset" in word]


def test_an_engine_applies_its_seccomp_profile_unless_told_otherwise() -> None:
    option = "--security-opt=seccomp=unconfined"
    assert option not in created(DOCKER, replace(EVERYTHING, security=Security(default_seccomp=True)))
    assert option in created(DOCKER, replace(EVERYTHING, security=Security(no_seccomp=True)))


def test_secrets_are_in_no_command_line_but_what_the_engine_would_heed_itself_is() -> None:
    words = created(PODMAN, EVERYTHING)
    assert not any("secret" in word for word in words)
    assert {"--env=TOKEN", "--env=LINES", "--env=PATH=/own"} <= set(words)
    assert commands.inherited_environment(EVERYTHING) == {"TOKEN": "secret", "LINES": "a\nb"}


@pytest.mark.parametrize(
    "name", ["PATH", "DOCKER_HOST", "LD_PRELOAD", "XDG_RUNTIME_DIR", "https_proxy", "HTTP_PROXY"]
)
def test_a_pods_variables_do_not_reach_the_engines_own_program(name: str) -> None:
    assert commands.affects_engine(name)


@pytest.mark.parametrize(
    ("command", "own", "tail"),
    [
        ((), True, ["image:1"]),
        (("a", "b"), False, ["image:1", "a", "b"]),
        (("a", "b"), True, ["--entrypoint=a", "image:1", "b"]),
    ],
)
def test_arguments_are_placed_by_the_entrypoint(command: tuple[str, ...], own: bool, tail: list[str]) -> None:
    spec = ContainerSpec("u1", "main", 0, "image:1", command, own_entrypoint=own)
    assert created(DOCKER, spec)[-len(tail) :] == tail
    assert any(word.startswith("--entrypoint") for word in created(DOCKER, spec)) == (bool(command) and own)


def test_podman_writes_the_log_and_shares_the_hostname_while_docker_does_neither() -> None:
    podman, docker = created(PODMAN, EVERYTHING), created(DOCKER, EVERYTHING)
    assert {"--log-driver=k8s-file", f"--log-opt=path={EVERYTHING.log_path}"} <= set(podman)
    assert "--uts=container:volcano-c0ffee-u1" in podman
    assert "--log-driver=json-file" in docker
    assert not any(word.startswith(("--uts", "--hostname")) for word in docker)


def test_a_pod_of_the_hosts_network_processes_and_memory_says_so() -> None:
    sandbox = SandboxSpec(
        "u1", "ns", "pod", "n", "/d", "node-1", host_network=True, host_pid=True, host_ipc=True
    )
    holder = commands.create_sandbox(DOCKER, OURS, EngineCapabilities(), sandbox, "pause")
    joined = created(DOCKER, EVERYTHING, sandbox)
    assert {"--network=host", "--pid=host", "--ipc=host"} <= set(holder)
    assert {"--network=host", "--pid=host", "--ipc=host", "--hostname=node-1"} <= set(joined)


def test_containers_that_share_processes_join_those_of_the_sandbox() -> None:
    sandbox = SandboxSpec("u1", "ns", "pod", "n", "/d", "h", share_pid=True)
    assert "--pid=container:volcano-c0ffee-u1" in created(PODMAN, EVERYTHING, sandbox)
    assert not any(word.startswith("--pid") for word in created(PODMAN, EVERYTHING))


def test_what_the_engine_cannot_do_here_is_not_asked_of_it() -> None:
    words = created(PODMAN, EVERYTHING, limits=False, ulimits=("nofile=10:10",), no_selinux_labels=True)
    assert not any(word.startswith(("--memory", "--cpus", "--cpu-shares")) for word in words)
    assert {"--ulimit=nofile=10:10", "--security-opt=label=disable"} <= set(words)
    alone = commands.create_sandbox(PODMAN, OURS, EngineCapabilities(network=False), SANDBOX, "pause")
    assert "--network=none" in alone


def understood(profile: EngineProfile, words: list[str]) -> str:
    """Error of the engine's own program for a command line when it can reach no engine."""
    program = shutil.which(profile.name)
    if program is None:
        pytest.skip(f"there is no program {profile.name}")
    environment = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/socket", "TOKEN": "t", "LINES": "l"}
    ended = subprocess.run([program, *words], env=environment, capture_output=True, timeout=60, check=False)
    return ended.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [
        created(DOCKER, EVERYTHING),
        commands.create_sandbox(DOCKER, OURS, EngineCapabilities(), SANDBOX, "pause"),
        commands.create_probe(DOCKER, OURS, EngineCapabilities(ulimits=("nofile=10:10",)), "pause"),
        commands.execute("c", ["true"], "mark", stdin=True, tty=False, environment={"A": "b"}),
        commands.attach("c", stdin=False),
        ["ps", "-aq", "--no-trunc", *OURS.filters("a=b")],
        ["rm", "--force", "--volumes", *DOCKER.remove_options, "c"],
        ["network", "create", "--label=a=b", *DOCKER.network_options, "n"],
        ["network", "ls", "--quiet", *OURS.filters()],
        ["logs", "--timestamps", "--follow", "--since=2026-01-01T00:00:00.000000000Z", "c"],
        ["info", f"--format={DOCKER.info_format}"],
        ["kill", "--signal=15", "c"],
        ["pull", "--quiet", "image"],
        ["container", "inspect", "c"],
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_dockers_own_program_accepts_the_command_lines(words: list[str]) -> None:
    said = understood(DOCKER, words)
    assert "unknown" not in said
    assert "invalid" not in said
    assert "/nonexistent/socket" in said, "it went as far as to look for its engine"


@pytest.mark.parametrize(
    ("profile", "options"),
    [
        pytest.param(PODMAN, ["--device=nvidia.com/gpu=GPU-a", "--device=nvidia.com/gpu=MIG-b"], id="podman"),
        pytest.param(DOCKER, ['--gpus="device=GPU-a,MIG-b"'], id="docker"),
    ],
)
def test_gpus_are_named_by_their_uuid(profile: EngineProfile, options: list[str]) -> None:
    access = GpuAccess(("/dev/nvidia0",), ("0000:01:00.0",), ("GPU-a", "MIG-b"))
    words = created(profile, replace(EVERYTHING, gpus=access))
    assert [word for word in words if word.startswith(("--device", "--gpus"))] == options
    assert not [word for word in words if "/dev/nvidia" in word]
    assert not [word for word in created(profile, EVERYTHING) if word.startswith(("--device", "--gpus"))]

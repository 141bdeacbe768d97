"""Completion: the parsers answer, the cluster names what is there, and shells offer it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, start
from tests.cli.terminal import Terminal
from volcano.cli.completion.candidates import Answer, NameRequest, complete, encode
from volcano.cli.program import parser_of
from volcano.kube.api.kinds import QUEUE

KNOWN = {"jobs": ["train", "test"], "queues": ["default", "research"], "namespaces": ["team", "kube-system"]}


def names(request: NameRequest) -> Iterable[str]:
    return KNOWN.get(request.sort, [f"<{request.sort}>"])


def offered(*words: str, program: str = "vcctl") -> list[str]:
    return [each.value for each in answered(*words, program=program).candidates]


def answered(*words: str, program: str = "vcctl") -> Answer:
    return complete(parser_of(program), words, names, program)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        pytest.param(("jo",), ["job", "jobflow", "jobtemplate"], id="commands"),
        pytest.param(("job", "l"), ["list", "logs"], id="commands below commands"),
        pytest.param(("job", "logs", "t"), ["test", "train"], id="names by position"),
        pytest.param(("job", "logs", "train", ""), [], id="one name is enough"),
        pytest.param(("job", "view", "-N", ""), ["test", "train"], id="names by flag"),
        pytest.param(
            ("job", "view", "-n", ""), ["test", "train", "kube-system", "team"], id="-n may be either"
        ),
        pytest.param(("job", "view", "train", "-n", ""), ["kube-system", "team"], id="-n after a name"),
        pytest.param(("job", "list", "-n", "t"), ["team"], id="-n of a list"),
        pytest.param(
            ("job", "list", "--namespace=t"), ["--namespace=team"], id="a value after an equals sign"
        ),
        pytest.param(("queue", "get", "-n", "r"), ["research"], id="a queue's -n is its name"),
        pytest.param(("queue", "create", "-n", ""), [], id="what is created has no name yet"),
        pytest.param(("submit", "-q", "d"), ["default"], id="queues"),
        pytest.param(("plan", "--from-running", "t"), ["test", "train"], id="jobs to be planned"),
        pytest.param(("job", "wait", "train", "--for", "C"), ["Completed"], id="phases"),
        pytest.param(("job", "list", "-o", "y"), ["yaml"], id="formats"),
        pytest.param(("job", "logs", "x", "--task", ""), ["<tasks>"], id="a job's tasks"),
        pytest.param(("--context", ""), ["<contexts>"], id="contexts"),
        pytest.param(("completion", ""), ["bash", "fish", "zsh"], id="choices"),
        pytest.param(("job", "wait", "--ti"), ["--timeout"], id="flags"),
        pytest.param(("--kubeconfig", "x", "queue", "tr"), ["tree"], id="after a flag with a value"),
        pytest.param(("__comp",), [], id="what only programs use is not offered"),
        pytest.param(("nonsense", ""), [], id="nonsense"),
        pytest.param(("job", "nonsense", "--no", ""), [], id="more nonsense"),
    ],
)
def test_what_may_come_next(words: tuple[str, ...], values: list[str]) -> None:
    assert offered(*words) == values


def test_files_are_left_to_the_shell() -> None:
    assert answered("job", "run", "-f", "").files
    assert answered("submit", "--", "py").files
    assert not answered("job", "logs", "").files


def test_the_other_programs_are_completed_too() -> None:
    assert offered("-n", "t", program="vcancel") == ["test", "train"]
    assert offered("--na", program="vjobs") == ["--name", "--namespace"]


def test_every_flag_of_every_command_can_be_asked_for() -> None:
    groups = {
        group: offered(group, "") for group in ("job", "queue", "jobflow", "jobtemplate", "pod", "podgroup")
    }
    assert "logs" in groups["job"]
    for group, leaves in groups.items():
        for leaf in leaves:
            flags = offered(group, leaf, "--")
            assert flags
            for flag in flags:
                assert isinstance(answered(group, leaf, f"{flag}="), Answer)


def test_an_answer_is_lines_and_a_number() -> None:
    text = encode(complete(parser_of("vcctl"), ["queue", "t"], names))
    assert text == "tree\tshow the hierarchy of queues with their shares\n:4"
    assert encode(answered("job", "run", "-f", "")) == ":0"


# against a cluster


def test_live_names_are_offered(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("alive", namespace), "Running")
    embedded.create(QUEUE, {"metadata": {"name": f"{namespace}-live"}, "spec": {"weight": 1}})
    assert vcctl("__complete", "--", "job", "logs", "al").out == "alive\n:4\n"
    assert vcctl("__complete", "--", "job", "logs", "alive", "--task", "").out == "worker\n:4\n"
    assert vcctl("__complete", "--", "job", "logs", "alive", "-c", "").out == "main\n:4\n"
    assert vcctl("__complete", "--", "queue", "get", f"{namespace}-").out == f"{namespace}-live\n:4\n"
    assert vcctl("__complete", "--", "job", "list", "-n", namespace).lines[0] == namespace
    assert vcctl("__complete", "--", "podgroup", "get", "alive").out.startswith("alive-")
    assert vcctl("__complete", "--", "--context", "").out == "volcano\n:4\n"


def test_without_a_server_there_is_nothing_and_no_noise(run_command: Vcctl) -> None:
    result = run_command("__complete", "--", "job", "logs", "")
    assert (result.code, result.out, result.err) == (0, ":4\n", "")
    far = run_command("__complete", "--", "--server", "https://127.0.0.1:1", "job", "logs", "")
    assert (far.code, far.out, far.err) == (0, ":4\n", "")


def test_help_does_not_show_what_only_programs_use(run_command: Vcctl) -> None:
    text = run_command("--help").out
    assert "__complete" not in text
    assert "completion" in text


@pytest.mark.parametrize(
    ("shell", "part"),
    [
        ("bash", "complete -F _vcctl vcctl vsub"),
        ("zsh", "#compdef vcctl"),
        ("fish", "complete -c $program -f"),
    ],
)
def test_each_shell_has_its_script(run_command: Vcctl, shell: str, part: str) -> None:
    result = run_command("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert part in result.out
    assert "@" + "PROGRAMS" not in result.out


def test_another_shell_is_a_usage_error(run_command: Vcctl) -> None:
    result = run_command("completion", "bsah")
    assert (result.code, result.out) == (2, "")
    assert "did you mean 'bash'?" in result.err


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A directory with `vcctl` in it, for a shell's path."""
    program = tmp_path / "bin" / "vcctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m volcano.cmd.vcctl "$@"\n')
    program.chmod(0o755)
    return program.parent


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@needs_bash
@pytest.mark.parametrize(
    ("words", "replies"),
    [
        pytest.param(["vcctl", "job", "logs", "al"], ["alive"], id="a name"),
        pytest.param(
            ["vcctl", "job", "wait", "alive", "--for", "=", "Comp"],
            ["Completed"],
            id="cut at the equals sign",
        ),
        pytest.param(["vcctl", "job", "wait", "alive", "--for", "="], None, id="right after the equals sign"),
        pytest.param(["vcancel", "-n", "al"], ["alive"], id="another program"),
        pytest.param(["vcctl", "queue", "tr"], ["tree"], id="a command"),
    ],
)
def test_bash_completes(
    embedded: Embedded,
    kubeconfig: Path,
    namespace: str,
    tool: Path,
    words: list[str],
    replies: list[str] | None,
) -> None:
    start(embedded, job("alive", namespace), "Running")
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""source <(vcctl completion bash)
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _vcctl; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    environment = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}
    found = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=30
    )
    assert found.stderr == ""
    expected = replies or ["Completed", "Running", "Failed", "Aborted", "Terminated", "Pending", "Deleted"]
    assert found.stdout.splitlines() == expected


@needs_bash
@pytest.mark.slow
def test_the_tab_key_completes_in_bash(
    embedded: Embedded, kubeconfig: Path, namespace: str, tool: Path
) -> None:
    start(embedded, job("alive", namespace), "Running")
    bash = ("bash", "--norc", "--noprofile", "-i")
    environment = {"PATH": f"{tool}:{os.environ['PATH']}", "PS1": "ready> ", "INPUTRC": "/dev/null"}
    with Terminal(command=bash, kubeconfig=kubeconfig, environment=environment) as terminal:
        terminal.until("ready>")
        terminal.send("source <(vcctl completion bash); echo sour''ced\r")
        terminal.until("sourced")
        terminal.send("vcctl job wait ali\t--for=Runn\t\r")
        terminal.until(f"job {namespace}/alive is Running")
        terminal.send("exit\r")
        assert terminal.ends() == 0


def test_help_and_completion_are_quick(kubeconfig: Path, tool: Path) -> None:
    """A loose bound: the figure is measured elsewhere; this catches something heavy imported too early."""
    slowest = min(_seconds(str(tool / "vcctl"), "--help") for _ in range(3))
    assert slowest < 1.0
    modules = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "volcano.cmd.vcctl", "--help"],
        capture_output=True,
        text=True,
    ).stderr
    assert not [name for name in ("numpy", "rich", "yaml", "orjson", "asyncio") if f"| {name}\n" in modules]


def _seconds(*words: str) -> float:
    began = time.monotonic()
    subprocess.run(words, capture_output=True, check=True)
    return time.monotonic() - began

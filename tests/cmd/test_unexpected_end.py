"""A cluster whose process ended without being stopped is reported by every command that looks for it."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from volcano.cli.program import main as vcctl
from volcano.cmd.volcano import main as volcano
from volcano.embedded import state


@dataclass
class Shown:
    code: int
    out: str
    err: str


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    def run(*words: str) -> Shown:
        capsys.readouterr()
        code = vcctl(words[1:]) if words[0] == "vcctl" else volcano(words)
        return Shown(code, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster that is configured or runs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("KUBECONFIG", "XDG_DATA_HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ended(home: None) -> state.Running:
    """The state of a default cluster whose process does not run any more."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    directory = state.default_directory()
    (directory / state.STORE).mkdir(parents=True)
    running = state.Running(
        process.pid,
        "https://127.0.0.1:1",
        str(directory / "kubeconfig"),
        str(directory),
        True,
        0,
        0,
        "",
        "",
        "",
    )
    state.announce(running)
    return running


def test_status_and_list_name_the_process_that_ended_and_how_to_resume(
    say: Callable[..., Shown], ended: state.Running
) -> None:
    shown = say("status")
    assert shown.code == 4
    assert f"process {ended.pid} of cluster default ended unexpectedly, about 20" in shown.err
    assert "`volcano up` resumes it" in shown.err
    assert "Ended unexpectedly" in say("list").out


def test_vcctl_names_the_process_that_ended(say: Callable[..., Shown], ended: state.Running) -> None:
    result = say("vcctl", "job", "list")
    assert result.code == 4
    assert f"process {ended.pid} of cluster default ended unexpectedly" in result.err


def test_a_cluster_that_was_stopped_is_only_stopped(say: Callable[..., Shown], ended: state.Running) -> None:
    state.mark_ended(Path(ended.directory))
    assert "unexpectedly" not in say("status").err
    shown = say("list").out
    assert "Stopped" in shown
    assert "unexpectedly" not in shown


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": 1}'])
def test_a_state_file_that_cannot_be_read_is_no_unexpected_end(tmp_path: Path, text: str) -> None:
    (tmp_path / state.STATE_FILE).write_text(text)
    assert state.unexpected_end(tmp_path) is None
    state.mark_ended(tmp_path)


def test_a_named_cluster_is_resumed_by_its_name(ended: state.Running) -> None:
    end = state.UnexpectedEnd(replace(ended, name="other"), 0.0)
    assert "`volcano up --name other` resumes it" in str(end)

"""`volcano` as a process: up and down, run, status, and what it says when something is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from volcano.cmd.volcano import main

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def volcano(*arguments: str, home: Path, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_RUNTIME_DIR": str(home),
    }
    return subprocess.run(
        [sys.executable, "-m", "volcano.cmd.volcano", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )


def write_job(directory: Path, name: str = "train", command: str = "sleep 1", **spec: Any) -> str:
    pod = {"restartPolicy": "Never", "containers": [{**CONTAINER, "command": ["sh", "-c", command]}]}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": 2,
            "tasks": [{"name": "w", "replicas": 2, "template": {"spec": pod}}],
            **spec,
        },
    }
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


class Shown(NamedTuple):
    """What a command said, run in this very process."""

    code: int
    out: str
    err: str


@pytest.fixture
def say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Shown]:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))

    def run(*arguments: str) -> Shown:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Shown(code, said.out, said.err)

    return run


@pytest.mark.slow
def test_run_follows_jobs_to_their_end_and_reports_them(tmp_path: Path) -> None:
    shown = volcano("run", "--nodes", "2", "-o", "json", write_job(tmp_path), home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert result["completed"] is True
    (job,) = result["jobs"]
    assert (job["name"], job["phase"], job["pods"]) == ("train", "Completed", {"Succeeded": 2})
    table = volcano("run", "--nodes", "2", write_job(tmp_path), home=tmp_path)
    assert "NAME" in table.stdout
    assert "Completed" in table.stdout


@pytest.mark.slow
def test_run_fails_when_a_job_fails_or_does_not_end(tmp_path: Path) -> None:
    failed = volcano("run", "--nodes", "2", write_job(tmp_path, command="exit 1"), home=tmp_path)
    assert failed.returncode == 1
    assert "Failed" in failed.stdout
    endless = write_job(tmp_path, "endless", command="sleep 1000")
    late = volcano("run", "--nodes", "2", "--timeout", "3s", endless, home=tmp_path)
    assert late.returncode == 1
    assert "not finished within 3 s: default/endless (Running)" in late.stderr


@pytest.mark.slow
def test_a_run_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    command = [sys.executable, "-m", "volcano.cmd.volcano", "run", "--no-local-node"]
    job = write_job(tmp_path, command="sleep 1000")
    environment = os.environ | {"HOME": str(tmp_path), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*command, job], stdout=subprocess.PIPE, env=environment, text=True) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "Running" in line)
        assert list(scratch.iterdir()) != []
        running.terminate()
        assert running.wait(timeout=60) == 130
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_up_detach_status_and_down(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    options = ("--data-dir", str(directory))
    up = volcano("up", *options, "--nodes", "2", "--detach", home=tmp_path)
    assert up.returncode == 0, up.stderr
    assert "dashboard: http://127.0.0.1:" in up.stdout
    assert "login#" not in up.stdout, (
        "a one-time link is printed to terminals only: output may be kept as a log"
    )
    try:
        status = volcano("status", *options, "-o", "json", home=tmp_path)
        running = json.loads(status.stdout)
        assert running["nodes"] == 2
        assert Path(running["kubeconfig"]).exists()
        again = volcano("up", *options, home=tmp_path)
        assert again.returncode == 1
        assert "already" in again.stderr
    finally:
        down = volcano("down", *options, home=tmp_path)
    assert down.returncode == 0, down.stderr
    gone = volcano("status", *options, home=tmp_path)
    assert gone.returncode == 4
    assert "no cluster runs" in gone.stderr


@pytest.mark.slow
def test_nothing_is_left_of_a_cluster_in_memory(tmp_path: Path) -> None:
    directory = tmp_path / "volcano-in-memory"
    up = volcano("up", "--in-memory", "--no-local-node", "--detach", home=tmp_path)
    try:
        assert up.returncode == 0, up.stderr
        assert (directory / "kubeconfig").exists()
    finally:
        down = volcano("down", home=tmp_path)
    assert down.returncode == 0, down.stderr
    assert not directory.exists()
    directory.mkdir()
    (directory / "admin.token").write_text("of one that was killed")
    cleared = volcano("down", home=tmp_path)
    assert (cleared.returncode, directory.exists()) == (0, False)
    assert str(directory) in cleared.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(("run", "missing.yaml"), 1, "missing.yaml: no such file", id="no such file"),
        pytest.param(
            ("up", "--nodes", "1", "--node", "cpu=lots"), 2, "not a quantity", id="a node that is none"
        ),
        pytest.param(("up", "--node", "cpu=-4"), 2, "must be 0 or more", id="a node that owes"),
        pytest.param(("up", "--node", "label:=x"), 2, "not a label key", id="a label without a key"),
        pytest.param(
            ("up", "--node", "taint:a b:NoExecute"), 2, "not a label key", id="a taint with a wrong key"
        ),
        pytest.param(("up", "--node", "=4"), 2, "is not a resource", id="nothing of which there is some"),
        pytest.param(("up", "--node", "name=My_Node"), 2, "lower-case", id="a name no node may have"),
        pytest.param(
            ("up", "--node", "name=a", "--node", "name=a"), 2, "two pools", id="two pools of one name"
        ),
        pytest.param(("up", "--port", "99999"), 2, "--port: '99999'", id="a port that is too high"),
        pytest.param(("run", "--port=-1", "x.yaml"), 2, "--port: '-1'", id="a port that is too low"),
        pytest.param(("run", "--timeout", "soon", "x.yaml"), 2, "--timeout", id="a time that is none"),
        pytest.param(("up", "--sim-duration", "soon"), 2, "--sim-duration", id="a duration that is none"),
        pytest.param(("down",), 4, "no cluster runs", id="nothing to stop"),
        pytest.param(("dance",), 2, "unknown command 'dance'", id="no such command"),
        pytest.param(("config", "validate", "missing.conf"), 1, "missing.conf", id="no such configuration"),
    ],
)
def test_wrong_use_is_explained_without_a_traceback(
    arguments: tuple[str, ...], code: int, text: str, say: Callable[..., Shown]
) -> None:
    shown = say(*arguments)
    assert shown.code == code
    assert text in shown.err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("kind: Job\n", "apiVersion is missing", id="no apiVersion"),
        pytest.param("a: [\n", "not valid YAML", id="no YAML"),
        pytest.param("- 1\n", "was expected", id="no object"),
        pytest.param("apiVersion: v1\nkind: Pod\n", "no metadata.name", id="no name"),
        pytest.param("# nothing yet\n---\n", "no objects in", id="nothing"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_starts(
    content: str, text: str, tmp_path: Path, say: Callable[..., Shown]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(content)
    shown = say("run", str(path))
    assert shown.code == 1
    assert text in shown.err
    assert str(path) in shown.err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b'actions: "dance"\n', "scheduler.conf:1: ", id="an action that is none"),
        pytest.param(b"\xff\xfe", "not a text file", id="no text"),
        pytest.param(None, "no such file or directory; check the path", id="no such file"),
    ],
)
def test_a_cluster_does_not_start_with_a_configuration_that_its_scheduler_would_refuse(
    content: bytes | None, text: str, tmp_path: Path, say: Callable[..., Shown]
) -> None:
    path = tmp_path / "scheduler.conf"
    if content is not None:
        path.write_bytes(content)
    shown = say("up", "--data-dir", str(tmp_path / "data"), "--scheduler-conf", str(path))
    assert shown.code == 1
    assert text in shown.err
    assert not (tmp_path / "data").exists()


def test_a_configuration_is_checked_offline(tmp_path: Path, say: Callable[..., Shown]) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "enqueue, alocate"\ntiers: []\n')
    wrong = say("config", "validate", str(path))
    assert wrong.code == 1
    assert f"{path}:1" in wrong.err
    assert "allocate" in wrong.err
    path.write_text('actions: "enqueue, allocate, elect"\ntiers:\n- plugins:\n  - name: gang\n')
    partly = say("config", "validate", str(path))
    assert (partly.code, "plugins  gang\n" in partly.out) == (0, True)
    assert f"warning: {path}:1: action 'elect' of Volcano is not provided and is skipped" in partly.err
    loads = "  - name: resource-strategy-fit\n  - name: usage\n  - name: rescheduling\n"
    path.write_text(f'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n{loads}')
    provided = say("config", "validate", str(path))
    assert (provided.code, "not provided" in provided.err) == (0, False)
    assert f"warning: {path}:7: rescheduling has no effect without the action shuffle" in provided.err
    path.write_text(
        "actions: shuffle\ntiers:\n- plugins:\n  - name: rescheduling\n    arguments: {interval: 5}\n"
    )
    integer = say("config", "validate", str(path))
    assert (
        integer.code,
        f"{path}:5: interval of rescheduling is 5; it must be a duration" in integer.err,
    ) == (1, True)
    path.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    right = say("config", "validate", str(path))
    assert (right.code, "valid" in right.out) == (0, True)

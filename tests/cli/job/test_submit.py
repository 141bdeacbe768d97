"""vcctl submit: a gang from a command line."""

import json
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl
from volcano.cli.job.submit import variables
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.submit.submission import (
    Submission,
    command_of,
    image_for,
    job_of,
    name_from,
    roles,
    wiring,
)

TRAIN = ("python", "train.py")


def task(manifest: Manifest, name: str = "worker") -> Any:
    return next(each for each in manifest["spec"]["tasks"] if each["name"] == name)


def container(manifest: Manifest, name: str = "worker") -> Any:
    return task(manifest, name)["template"]["spec"]["containers"][0]


def test_workers_start_together_with_their_devices() -> None:
    manifest = job_of(Submission(TRAIN, workers=4, gpus=2, cpus="8", memory="32Gi"), "team")
    assert (manifest["spec"]["minAvailable"], task(manifest)["replicas"]) == (4, 4)
    assert container(manifest)["command"] == ["python", "train.py"]
    assert container(manifest)["resources"] == {
        "requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    assert manifest["metadata"] == {"generateName": "train-", "namespace": "team"}
    assert "plugins" not in manifest["spec"]


def test_everything_asked_for_is_in_the_job() -> None:
    order = Submission(
        TRAIN, name="mine", workers=3, queue="research", min_available=2, priority_class="high", retries=5,
        env={"A": "1"}, plugins=("env",), keep=60, image="torch:2",
    )  # fmt: skip
    spec = job_of(order, "team")["spec"]
    assert job_of(order, "team")["metadata"]["name"] == "mine"
    assert (spec["queue"], spec["minAvailable"], spec["priorityClassName"]) == ("research", 2, "high")
    assert (spec["maxRetry"], spec["ttlSecondsAfterFinished"], spec["plugins"]) == (5, 60, {"env": []})
    assert {"event": "PodFailed", "action": "RestartJob"} in spec["policies"]
    found = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (found["image"], found["env"]) == ("torch:2", [{"name": "A", "value": "1"}])


@pytest.mark.parametrize(
    ("plugins", "workers", "tasks", "plugged"),
    [
        pytest.param((), 4, [("worker", 4)], [], id="workers alone"),
        pytest.param(
            ("pytorch",), 4, [("master", 1), ("worker", 3)], ["pytorch", "svc"], id="the first worker leads"
        ),
        pytest.param(("pytorch",), 1, [("master", 1)], ["pytorch", "svc"], id="a leader alone"),
        pytest.param(
            ("mpi",), 4, [("master", 1), ("worker", 4)], ["mpi", "svc", "ssh"], id="a launcher leads"
        ),
        pytest.param(
            ("tensorflow", "svc"), 2, [("worker", 2)], ["tensorflow", "svc"], id="workers among equals"
        ),
    ],
)
def test_plugins_decide_the_roles(
    plugins: tuple[str, ...], workers: int, tasks: list[tuple[str, int]], plugged: list[str]
) -> None:
    order = Submission(TRAIN, workers=workers, gpus=1, plugins=plugins)
    assert [(role.name, role.replicas) for role in roles(order)] == tasks
    assert wiring(order) == plugged
    assert job_of(order, "")["spec"]["minAvailable"] == sum(count for _, count in tasks)


def test_an_mpi_launcher_runs_the_command_without_devices() -> None:
    manifest = job_of(Submission(("mpirun", "x"), workers=2, gpus=1, plugins=("mpi",)), "")
    assert container(manifest, "master")["command"] == ["mpirun", "x"]
    assert "limits" not in container(manifest, "master")["resources"]
    assert "sshd" in container(manifest)["command"][-1]
    assert task(manifest, "master")["policies"] == [{"event": "TaskCompleted", "action": "CompleteJob"}]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("python", "train.py"), "train"), (("python", "-u", "src/My_Model.v2.py", "x.sh"), "my-model"),
        (("/usr/bin/sleep", "5"), "sleep"), (("...",), "job"), (("echo a && echo b",), "echo"), (("X" * 90,), "x" * 40),
    ],
)  # fmt: skip
def test_a_job_is_named_after_what_it_runs(words: tuple[str, ...], name: str) -> None:
    assert name_from(words) == name


def test_one_word_with_spaces_is_for_a_shell() -> None:
    assert command_of(["echo a && echo b"]) == ["/bin/sh", "-c", "echo a && echo b"]
    assert command_of(["echo", "a b"]) == ["echo", "a b"]


def test_an_image_suits_the_program() -> None:
    assert [image_for([word]) for word in ("python3.12", "/usr/bin/python", "sleep")] == [
        "python:3",
        "python:3",
        "busybox",
    ]


def test_variables_may_be_taken_from_here() -> None:
    assert variables(["A=b=c", "HOME", "E="], {"HOME": "/me"}) == {"A": "b=c", "HOME": "/me", "E": ""}


# the command


def test_a_dry_run_shows_the_job_and_needs_no_cluster(run_command: Vcctl) -> None:
    result = run_command("submit", "--workers", "4", "--gpus", "2", "--dry-run", "-o", "yaml", "--", *TRAIN)
    assert (result.code, result.err) == (0, "")
    shown = yaml.safe_load(result.out)
    assert (shown["kind"], shown["spec"]["minAvailable"]) == ("Job", 4)
    assert container(shown)["command"] == ["python", "train.py"]
    as_json = run_command("submit", "--dry-run", "-o", "json", "--", *TRAIN)
    assert json.loads(as_json.out)["apiVersion"] == "batch.volcano.sh/v1alpha1"


def test_a_dry_run_submits_nothing(vcctl: Vcctl, namespace: str) -> None:
    assert vcctl("submit", "--dry-run", "--", "true").code == 0
    assert vcctl("job", "list").out == "No resources found\n"


def test_flags_of_the_command_are_the_commands(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    assert vcctl("submit", "-N", "own", "--cpus", "10m", "--", "prog", "--workers", "9", "-n", "x").code == 0
    found = embedded.get(JOB, Key(namespace, "own"))
    assert container(found)["command"] == ["prog", "--workers", "9", "-n", "x"]
    assert task(found)["replicas"] == 1


def test_waiting_for_the_end(vcctl: Vcctl, namespace: str) -> None:
    result = vcctl("submit", "--workers", "2", "--cpus", "10m", "--wait", "--", "sleep", "0.3")
    assert result.code == 0
    submitted, reached = result.lines
    assert submitted.startswith(f"submitted job {namespace}/sleep-")
    assert reached.endswith("is Completed")


def test_following_to_the_end_tells_how_it_went(vcctl: Vcctl, namespace: str) -> None:
    good = vcctl("submit", "--name", "good", "--cpus", "10m", "--follow", "--", "sleep", "0.3")
    assert good.code == 0
    assert "worker-0 | simulated container worker exited with 0" in good.lines
    bad = vcctl("submit", "--name", "bad", "--cpus", "10m", "-f", "--", "sleep 0.2; exit 3")
    assert bad.code == 1
    assert f"job {namespace}/bad ended Failed" in bad.err


def test_the_name_alone_for_scripts(vcctl: Vcctl) -> None:
    result = vcctl("submit", "--name", "scripted", "--cpus", "10m", "-o", "name", "--", "sleep", "9")
    assert result.out == "job.batch.volcano.sh/scripted\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "say what to run after two dashes"),
        (("--workers", "0", "--", "x"), 2, "--workers: must be 1 or more (got 0)"),
        (("--workers", "many", "--", "x"), 2, "many"),
        (("--cpus", "lots", "--", "x"), 2, "--cpus: 'lots' is not a quantity"),
        (("--name", "Bad_Name", "--", "x"), 2, "--name: 'Bad_Name'"),
        (("--plugin", "pytroch", "--", "x"), 2, "did you mean 'pytorch'?"),
        (("--env", "NOT_SET_ANYWHERE", "--", "x"), 2, "--env"),
        (("--min-available", "3", "--workers", "2", "--", "x"), 2, "not between 1 and 2"),
        (("--queue", "nowhere", "--", "x"), 1, "nowhere"),
        (("-o", "xml", "--", "x"), 2, "xml"),
    ],
)
def test_bad_input(vcctl: Vcctl, words: tuple[str, ...], code: int, said: str) -> None:
    result = vcctl("submit", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_no_server_is_4(run_command: Vcctl) -> None:
    assert run_command("submit", "--", "x").code == 4

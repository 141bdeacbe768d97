"""The commands that Slurm's users know, where `-n` is the name and `-N` the namespace."""

import pytest

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key


def test_vsub_submits_a_command_line(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    result = vcctl("-n", "train", "-r", "2", "-c", "python -c 'print(1 + 1)'", program="vsub")
    assert (result.code, result.out) == (0, "run job train successfully\n")
    task = embedded.get(JOB, Key(namespace, "train"))["spec"]["tasks"][0]
    assert task["replicas"] == 2
    assert task["template"]["spec"]["containers"][0]["command"] == ["python", "-c", "print(1 + 1)"]


def test_vsub_takes_its_defaults_from_the_environment(
    vcctl: Vcctl, embedded: Embedded, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLCANO_DEFAULT_IMAGE", "mine")
    monkeypatch.setenv("VOLCANO_DEFAULT_JOB_NAMESPACE", namespace)
    monkeypatch.setenv("VOLCANO_SCHEDULER_NAME", "other")
    assert vcctl("--name", "train", program="vsub").code == 0
    spec = embedded.get(JOB, Key(namespace, "train"))["spec"]
    image = spec["tasks"][0]["template"]["spec"]["containers"][0]["image"]
    assert (image, spec["schedulerName"]) == ("mine", "other")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "job name cannot be left blank", id="no-name"),
        pytest.param(["-n", "x", "-c", "a 'b"], "No closing quotation", id="open-quote"),
    ],
)
def test_vsub_refuses_nonsense(vcctl: Vcctl, words: list[str], message: str) -> None:
    result = vcctl(*words, program="vsub")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Failed to: ")
    assert message in result.err


def test_vjobs_lists_or_shows(vcctl: Vcctl, namespace: str) -> None:
    vcctl("-n", "train", program="vsub")
    assert vcctl(program="vjobs").lines[0].startswith("Name    Creation       Phase")
    assert vcctl("-n", "train", "-N", namespace, program="vjobs").lines[0] == "Name:       \ttrain"
    assert vcctl("--selector", "nothing", program="vjobs").out == "No resources found\n"
    assert any(namespace in line for line in vcctl("--all-namespaces", program="vjobs").lines)


def test_vqueues_lists_or_shows(vcctl: Vcctl) -> None:
    result = vcctl(program="vqueues")
    assert result.lines[0] == (
        f"{'Name':25}{'Weight':8}{'State':8}{'Inqueue':8}{'Pending':8}{'Running':8}{'Unknown':8}"
    )
    assert [line.split()[0] for line in vcctl("-n", "default", program="vqueues").lines] == [
        "Name",
        "default",
    ]
    assert vcctl("-n", "defolt", program="vqueues").code == 3


def test_a_job_is_suspended_resumed_and_cancelled(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    def becomes(phase: str) -> None:
        key = Key(namespace, "train")
        embedded.until(JOB, key, lambda job: job.get("status", {}).get("state", {}).get("phase") == phase)

    vcctl("-n", "train", program="vsub")
    becomes("Running")
    assert vcctl("-n", "train", program="vsuspend").code == 0
    becomes("Aborted")
    assert vcctl("train", "-N", namespace, program="vresume").code == 0
    becomes("Running")
    assert vcctl("-n", "train", program="vcancel").out == "cancel job train successfully\n"
    gone = vcctl("-n", "train-2", program="vcancel")
    assert (gone.code, gone.out) == (3, "")
    assert gone.err.startswith("Failed to: job 'train-2' not found")


@pytest.mark.parametrize("program", ["vcancel", "vsuspend", "vresume"])
def test_a_name_is_mandatory(vcctl: Vcctl, program: str) -> None:
    result = vcctl(program=program)
    assert (result.code, result.out) == (2, "")
    assert "job name is mandatory" in result.err

"""The commands on the page about Cromwell, run as Cromwell's generic backend runs them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.program import Cluster, Volcano, python_of, until, used
from tests.frameworks.examples import own_network

pytestmark = pytest.mark.frameworks

PAGE = Path(__file__).parents[2] / "docs" / "frameworks" / "cromwell.md"
ATTRIBUTES = {"cpus": "1", "memory_mb": "64", "gpus": "0", "queue": "default"}
NAME = "cromwell_1a2B3c4d_sayHello"


def setting_of(name: str) -> str:
    """A setting of the configuration on the page."""
    found = re.search(rf'^ +{name} = (?:"""(.*?)"""|"(.*?)")$', PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, f"{name} is not on the page"
    return (found[1] or found[2]).replace("\\\\", "\\")


class Cromwell:
    """Fills in the variables of a command and runs it with the shell, as the generic backend does."""

    def __init__(self, volcano: Volcano, cluster: Cluster) -> None:
        self.directory = volcano.home / "workflow"
        programs = volcano.home / "bin"
        programs.mkdir()
        (programs / "vcctl").write_text(
            f'#!/bin/sh\nexec {python_of(volcano.setting.user)} -m volcano.cmd.vcctl "$@"\n'
        )
        (programs / "vcctl").chmod(0o755)
        self._environment = volcano.environment | {
            "PATH": f"{programs}:{volcano.environment['PATH']}",
            "KUBECONFIG": str(cluster.directory / "kubeconfig"),
        }

    def task(self, name: str, command: str) -> dict[str, str]:
        """The variables of a task, whose script stores its exit code as Cromwell's scripts do."""
        cwd = self.directory / name
        execution = cwd / "execution"
        execution.mkdir(parents=True)
        script = execution / "script"
        script.write_text(f"#!/bin/bash\ncd {execution}\n({command})\necho $? > rc.tmp && mv rc.tmp rc\n")
        files = {"script": script, "out": execution / "stdout", "err": execution / "stderr"}
        return {"job_name": NAME, "cwd": str(cwd), **{key: str(path) for key, path in files.items()}}

    def run(self, setting: str, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        command = re.sub(
            r"\$\{(\w+)\}", lambda match: (ATTRIBUTES | variables)[match[1]], setting_of(setting)
        )
        return subprocess.run(
            ["/bin/bash", "-c", command],
            env=self._environment, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def submit(self, variables: dict[str, str]) -> str:
        """Submits a task; returns the job's id."""
        shown = self.run("submit", variables)
        found = re.search(setting_of("job-id-regex"), shown.stdout)
        assert shown.returncode == 0, shown.stderr
        assert found is not None, shown.stdout
        return found[1]

    def is_alive(self, job: str) -> bool:
        return self.run("check-alive", {"job_id": job}).returncode == 0


@pytest.fixture(scope="module")
def cromwell() -> Iterator[Cromwell]:
    with used(own_network()) as volcano:
        cluster = Cluster(volcano)
        cluster.up("--runtime", volcano.setting.runtime)
        try:
            yield Cromwell(volcano, cluster)
        finally:
            cluster.down()


def test_shards_of_the_same_name_run_and_leave_their_output_and_exit_codes(cromwell: Cromwell) -> None:
    shards = [
        cromwell.task("shard-0", "echo hello from 0"),
        cromwell.task("shard-1", "echo no >&2; exit 3"),
    ]
    jobs = [cromwell.submit(shard) for shard in shards]
    assert len(set(jobs)) == 2
    codes = [Path(shard["cwd"], "execution", "rc") for shard in shards]
    until(lambda: all(code.exists() for code in codes), "both tasks have exit codes", within=60.0)
    assert [code.read_text().strip() for code in codes] == ["0", "3"]
    assert Path(shards[0]["out"]).read_text() == "hello from 0\n"
    assert Path(shards[1]["err"]).read_text() == "no\n"
    until(lambda: not any(map(cromwell.is_alive, jobs)), "neither job is alive", within=30.0)


def test_a_running_task_is_alive_until_it_is_killed(cromwell: Cromwell) -> None:
    job = cromwell.submit(cromwell.task("long", "sleep 600"))
    assert cromwell.is_alive(job)
    assert cromwell.run("kill", {"job_id": job}).returncode == 0
    until(lambda: not cromwell.is_alive(job), "the job is gone", within=30.0)

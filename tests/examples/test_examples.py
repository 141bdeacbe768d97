"""Every file in examples/ runs with the command in its header and prints the expected result."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.embedded.program import NETNS, NOBODYS_USERNS, PLAIN, USERNS, Setting, obstacle, used
from volcano.cli.volcano.example_files import flags_of

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 110.0


def run(setting: Setting, name: str, *options: str) -> str:
    """Output of `volcano run` for an example that completes."""
    with used(setting) as volcano:
        shutil.copy(EXAMPLES / name, volcano.home)
        shown = volcano.run("run", *options, str(volcano.home / name), timeout=TIMEOUT)
    assert shown.returncode == 0, f"{shown.stdout}\n{shown.stderr}"
    assert "Completed" in shown.stdout
    return shown.stdout


def log_lines(output: str, pattern: str) -> list[str]:
    """The matching log lines of pods, without the pod's name."""
    return re.findall(rf"^[\w-]+ \| ({pattern})\s*$", output, re.MULTILINE)


@pytest.fixture
def best_runtime() -> Setting:
    """The best available runtime."""
    return next(each for each in (NETNS, USERNS, PLAIN) if not obstacle(each))


@pytest.fixture
def own_network() -> Setting:
    """A runtime whose pods have their own names and ports."""
    for setting in (NETNS, USERNS):
        if not obstacle(setting):
            return setting
    pytest.skip(f"no runtime with pod networking is available here: {obstacle(NETNS)}")


def needs(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"):
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def torch() -> None:
    """Skips without PyTorch for the system's Python, which the examples use."""
    found = subprocess.run(
        ["/usr/bin/python3", "-c", "import importlib.util; print(bool(importlib.util.find_spec('torch')))"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.stdout.strip() != "True":
        pytest.skip("PyTorch is not installed for /usr/bin/python3")


def test_every_example_has_a_test() -> None:
    tested = set(re.findall(r'"([\w-]+\.yaml)"', Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == tested


def test_allreduce(best_runtime: Setting) -> None:
    output = run(best_runtime, "allreduce.yaml")
    learned = log_lines(output, r"worker \d learned y = .*")
    assert len(learned) == 4
    assert len({line.partition("learned")[2] for line in learned}) == 1, "workers have different results"
    assert len(log_lines(output, "step .*")) == 4


def test_array(best_runtime: Setting) -> None:
    output = run(best_runtime, "array.yaml")
    assert sorted(log_lines(output, "item .*")) == sorted(f"item {n}: {n * n}" for n in range(10))


def test_budget(best_runtime: Setting) -> None:
    output = run(best_runtime, "budget.yaml")
    assert len(log_lines(output, "within the budget")) == 2


def test_driver_executors(own_network: Setting) -> None:
    output = run(own_network, "driver-executors.yaml")
    assert log_lines(output, "the sum .*") == ["the sum of 40 squares is 22140"]
    # A pending executor may be deleted with the job before it prints anything.
    squared = [int(line.split()[3]) for line in log_lines(output, r"executor \d squared \d+ numbers")]
    assert squared
    assert sum(squared) <= 40


def test_fair_share(best_runtime: Setting) -> None:
    output = run(best_runtime, "fair-share.yaml")
    ended = re.findall(r"^(research|teaching)-run-\d+ \| done", output, re.MULTILINE)
    assert Counter(ended) == {"research": 12, "teaching": 12}
    # Three to one while both have pending pods; afterwards the other uses all nodes.
    halfway = Counter(ended[:12])
    assert halfway["research"] > halfway["teaching"] > 0


def test_past_usage(best_runtime: Setting) -> None:
    output = run(best_runtime, "past-usage.yaml")
    ended = re.findall(r"^(alice|bob)-run-\d+ \| done", output, re.MULTILINE)
    assert Counter(ended) == {"alice": 12, "bob": 2}
    assert ended.index("bob") < 8  # not after all pods of the older job
    assert ended[-1] == "alice"


def test_mpi_allreduce(own_network: Setting) -> None:
    needs("mpiexec", "sshd")
    lines = log_lines(run(own_network, "mpi-allreduce.yaml"), "rank .*")
    assert sorted(lines) == [f"rank {n} of 3 on mpi-allreduce-worker-{n}: the sum is 6" for n in range(3)]


def test_mpi_gang(own_network: Setting) -> None:
    needs("mpiexec", "sshd")
    output = run(own_network, "mpi-gang.yaml")
    lines = log_lines(output, r"mpi-gang-mpiworker-\d")
    assert sorted(lines) == ["mpi-gang-mpiworker-0", "mpi-gang-mpiworker-1"], output


def test_parameter_server(own_network: Setting) -> None:
    output = run(own_network, "parameter-server.yaml")
    assert log_lines(output, "the parameter .*") == ["the parameter is 7.00"]
    assert sorted(log_lines(output, "worker .*")) == [f"worker {n} took 20 steps" for n in range(3)]


def test_gpu_share(best_runtime: Setting) -> None:
    """On real cards where there are some, with PyTorch if it is installed, else on fake ones."""
    flags = flags_of(EXAMPLES / "gpu-share.yaml")
    lines = log_lines(run(best_runtime, "gpu-share.yaml", *flags), r"gpu-share-worker-\d: 4000m of card .*")
    assert len(lines) == 4
    assert len({re.search(r"card ([^,]+)", line).group(1) for line in lines}) == 1  # type: ignore[union-attr]


def test_pytorch_ddp(own_network: Setting, torch: None) -> None:
    lines = log_lines(run(own_network, "pytorch-ddp.yaml"), "rank .*")
    assert len(lines) == 4
    assert len({line.partition(":")[2] for line in lines}) == 1, "ranks have different losses"
    assert all("the same weights on every rank" in line for line in lines)


def test_restart_once(own_network: Setting) -> None:
    output = run(own_network, "restart-once.yaml")
    assert "job default/restart-once: Restarting" in output
    assert len(log_lines(output, r"worker 0: attempt fails after \d+ others")) == 1
    assert sorted(log_lines(output, "worker .: done"))[0] == "worker 0: done"


def test_torchrun_gang(own_network: Setting, torch: None) -> None:
    needs("torchrun")
    output = run(own_network, "torchrun-gang.yaml", "--fake-gpus", "3")
    lines = re.findall(r"rank (\d) of 3 on torchrun-gang-[\w-]+: sum 6", output)
    assert sorted(lines) == ["0", "1", "2"]


@pytest.mark.parametrize("setting", [NOBODYS_USERNS, PLAIN], ids=str)
def test_the_example_without_requirements_runs_on_every_runtime(setting: Setting) -> None:
    if reason := obstacle(setting):
        pytest.skip(f"{setting}: {reason}")
    assert len(log_lines(run(setting, "allreduce.yaml"), r"worker \d learned y = .*")) == 4


def test_the_demo_trains_with_a_gang(best_runtime: Setting) -> None:
    with used(best_runtime) as volcano:
        shown = volcano.run("demo", timeout=TIMEOUT)
    assert shown.returncode == 0, f"{shown.stdout}\n{shown.stderr}"
    assert len(log_lines(shown.stdout, r"worker \d learned y = .*")) == 4
    assert len(log_lines(shown.stdout, r"worker \d: points .*")) == 4
    # The second gang starts after the first has completed.
    assert shown.stdout.rindex("learned y =") < shown.stdout.index(": points ")
    for job in ("train", "evaluate", "llm"):
        assert re.search(rf"Job +default +{job} +Completed +4 succeeded", shown.stdout)


def test_topology_gang_runs_on_simulated_nodes(best_runtime: Setting) -> None:
    options = (
        "--no-local-node",
        "--nodes",
        "32",
        "--node",
        "nvidia.com/gpu=8",
        "--topology",
        "rack=4,spine=4",
    )
    output = run(best_runtime, "topology-gang.yaml", *options)
    assert re.search(r"rack-gang\s+Completed\s+4 succeeded\s+4 ", output), output


def test_device_claims(best_runtime: Setting) -> None:
    options = ("--no-local-node", "--nodes", "2", "--node", "cpu=8,dra=gpu.example.com:2")
    run(best_runtime, "device-claims.yaml", *options)


def test_backfill_runs_the_gang_beside_jobs_that_end_before_it(best_runtime: Setting) -> None:
    output = run(best_runtime, "backfill.yaml", *flags_of(EXAMPLES / "backfill.yaml"))
    assert output.count("Completed") >= 3

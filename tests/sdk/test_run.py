"""Functions and scripts as gangs, on a node that runs them."""

import asyncio
import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from volcano.sdk import Cluster, JobFailed, NotFinished, Run, SdkError, WorkerFailed, run

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"cpus": "50m", "memory": "64Mi"}
LIMIT = 90.0


def exchange(factor: int) -> tuple[int, int]:
    """Sums a number of every worker: each sends its own to all others."""
    import socket
    import time

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"])
    if rank == 0:
        with socket.create_server(("", port)) as server:
            numbers = [0]
            for _ in range(size - 1):
                connection, _ = server.accept()
                numbers.append(int(connection.recv(100)))
                connection.close()
        return rank, factor * sum(numbers)
    for _ in range(600):
        try:
            with socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=5) as connection:
                connection.send(str(rank).encode())
            return rank, 0
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("worker 0 does not answer")


def test_a_function_runs_in_every_worker_and_returns_its_results_by_rank(cluster: Cluster) -> None:
    found = run(exchange, 10, workers=3, cluster=cluster, **SMALL).results(LIMIT)
    assert found == [(0, 30), (1, 0), (2, 0)]


def test_closures_and_own_modules_are_sent_along(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_helpers.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_helpers  # type: ignore[import-not-found]

    (tmp_path / "own_helpers.py").unlink()  # the pods must not need the file
    offset = 4
    found = run(lambda x: own_helpers.triple(x) + offset, 5, name="lambda", cluster=cluster, **SMALL)
    assert found.results(LIMIT) == [19]
    assert found.name == "lambda"


def test_what_a_function_prints_is_in_the_logs_and_its_result_is_not(cluster: Cluster) -> None:
    def chatty() -> str:
        sys.stdout.write(f"hello from {os.environ['RANK']}\nno newline at the end")
        return "x" * 100_000  # more than one line of the log

    submitted = run(chatty, workers=2, cluster=cluster, **SMALL)
    assert submitted.results(LIMIT) == ["x" * 100_000] * 2
    assert submitted.logs(rank=1) == "hello from 1\nno newline at the end\n"
    assert submitted.logs().splitlines()[0] == "[0] hello from 0"
    printed = io.StringIO()
    submitted.follow(printed)
    assert "worker-0 | hello from 0" in printed.getvalue()
    assert "@volcano" not in printed.getvalue()


def test_an_error_in_one_worker_ends_all_of_them_and_is_raised_here(cluster: Cluster) -> None:
    def fails() -> None:
        import time

        if os.environ["RANK"] == "1":
            raise ValueError("no such dataset")
        time.sleep(600)  # waits for the other one

    submitted = run(fails, workers=2, cluster=cluster, **SMALL)
    with pytest.raises(WorkerFailed, match="worker 1 failed: ValueError: no such dataset") as raised:
        submitted.results(LIMIT)
    assert isinstance(raised.value.__cause__, ValueError)
    assert "in fails" in raised.value.traceback
    submitted.delete()


def test_a_result_that_cannot_be_returned_says_so(cluster: Cluster) -> None:
    def returns_a_lock() -> object:
        return threading.Lock()

    with pytest.raises(JobFailed, match="the result cannot be sent back"):
        run(returns_a_lock, cluster=cluster, **SMALL).results(LIMIT)


def test_a_script_of_the_current_directory_runs_with_its_arguments(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "open(os.environ['VOLCANO_OUTPUT'] + '/model', 'w').write('weights')\n"
        "print('epochs', sys.argv[1], 'rank', os.environ['VC_TASK_INDEX'])\n"
    )
    submitted = run("train.py", 3, workers=2, cluster=cluster, **SMALL).wait(LIMIT)
    assert submitted.phase == "Completed"
    assert sorted(submitted.logs().splitlines()) == ["[0] epochs 3 rank 0", "[1] epochs 3 rank 1"]
    assert submitted.outputs(str(tmp_path / "found")) == 2
    assert {path.read_text() for path in (tmp_path / "found").rglob("model")} == {"weights"}
    with pytest.raises(SdkError, match="runs a script, which returns nothing"):
        submitted.results()


def test_a_failed_script_shows_the_end_of_its_log(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('out of data')\n")
    with pytest.raises(JobFailed, match="out of data"):
        run("broken.py", cluster=cluster, **SMALL).wait(LIMIT)


def test_a_job_that_waits_says_why_and_can_be_deleted(cluster: Cluster) -> None:
    submitted = run(exchange, 1, workers=2, cpus="1000", memory="64Mi", cluster=cluster)
    with pytest.raises(NotFinished, match="Pending"):
        submitted.wait(timeout=3)
    assert "cpu" in submitted.reason
    submitted.delete()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_calls_work_inside_of_a_running_event_loop_as_in_a_notebook(configured: None) -> None:
    async def cell() -> list[Any]:
        return run(lambda: "in a notebook", **SMALL).results(LIMIT)

    assert asyncio.run(cell()) == ["in a notebook"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers: must be a whole number of at least 1"),
        ({"gpus": -1}, "gpus: must be a whole number of at least 0"),
        ({"name": "My Job"}, "name: 'My Job' must be lower case letters, digits and dashes"),
        ({"priority_class": "urgnt"}, "urgnt"),
    ],
)
def test_an_invalid_option_is_rejected_before_anything_is_created(
    cluster: Cluster, options: dict[str, Any], message: str
) -> None:
    before = len(cluster.jobs.list())
    with pytest.raises(SdkError, match=message):
        run(lambda: None, cluster=cluster, **{**SMALL, **options})
    assert len(cluster.jobs.list()) == before


def test_a_function_that_cannot_be_sent_says_what_to_do(cluster: Cluster) -> None:
    lock = threading.Lock()
    with pytest.raises(SdkError, match=r"cannot be sent to other processes.*open files"):
        run(lambda: lock.locked(), cluster=cluster, **SMALL)


def test_a_run_shows_its_state(cluster: Cluster) -> None:
    submitted = run(lambda: None, name="shown", cluster=cluster, **SMALL)
    assert isinstance(submitted, Run)
    submitted.wait(LIMIT)
    assert repr(submitted) == "<Run default/shown Completed, 0 running of 1>"


def test_a_run_is_shown_without_an_error_when_its_job_is_gone(cluster: Cluster) -> None:
    submitted = run(lambda: None, name="removed", cluster=cluster, **SMALL)
    submitted.delete()
    for _ in range(100):  # until its pods have ended
        if repr(submitted).endswith(" deleted>"):
            break
        time.sleep(0.1)
    assert repr(submitted) == "<Run default/removed deleted>"

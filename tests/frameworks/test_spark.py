"""Spark: `spark-submit` in cluster mode, with a PodGroup in a queue."""

import re

import pytest

from tests.frameworks.examples import completed, log_lines, needs, run
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.frameworks

PI = "frameworks/spark/pi.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("spark")


def properties(documents: list[Manifest], change: dict[str, str]) -> None:
    """Changes properties of the application."""
    (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    text = data["spark.properties"]
    for name, value in change.items():
        text, count = re.subn(rf"(?m)^{re.escape(name)}=.*$", f"{name}={value}", text)
        assert count == 1, name
    data["spark.properties"] = text


def test_executors_compute_together_in_the_pod_group_of_their_queue() -> None:
    output = completed(PI)
    (result,) = log_lines(output, "pi is .*")
    pods = re.fullmatch(r"pi is 3.141593, computed in (pi-\w+-exec-\d) and (pi-\w+-exec-\d)", result)
    assert pods is not None, result
    assert pods[1] != pods[2]
    (group,) = log_lines(output, "pod group pi .*")
    assert re.fullmatch(r"pod group pi in queue spark: (Running|Completed)", group), group


def test_the_application_fails_without_its_second_executor() -> None:
    def change(documents: list[Manifest]) -> None:
        tries = {"spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10"}
        properties(documents, {"spark.executor.instances": "1", **tries})

    shown = run(PI, change=change)
    assert shown.returncode != 0, shown.stdout
    assert (
        "Barrier execution mode does not allow run a barrier stage that requires more slots" in shown.stdout
    )
    assert not log_lines(shown.stdout, "pi is .*")


def test_spark_submit_survives_bookmarks_of_its_watch() -> None:
    """Its Java client hands bookmarks, sent every minute, on to spark-submit, which read fields of their pods."""

    def change(documents: list[Manifest]) -> None:
        (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
        data["pi.py"] = f"import time\n\ntime.sleep(75)\n\n{data['pi.py']}"

    shown = run(PI, change=change)
    assert shown.returncode == 0, shown.stdout
    assert "NullPointerException" not in shown.stdout
    assert log_lines(shown.stdout, "pi is .*")

"""Flink: a session cluster as a gang, with a submitter."""

import pytest

from tests.frameworks.examples import completed, log_lines, needs, run, without_one
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.frameworks

SUM = "frameworks/flink/sum.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("flink")


def test_a_query_uses_both_task_managers_and_ends_the_job() -> None:
    total = sum(n * n for n in range(1, 6001))
    assert log_lines(completed(SUM), "sum of squares.*") == [
        f"sum of squares: {total} from sum-tm-0 and sum-tm-1"
    ]


def test_a_query_fails_without_the_second_task_manager() -> None:
    def change(documents: list[Manifest]) -> None:
        without_one("tm")(documents)
        (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
        # The submitter goes on with one task manager: Flink itself must not run the query.
        data["submit.py"] = data["submit.py"].replace("while managers() < MANAGERS", "while managers() < 1")
        data["config.yaml"] = data["config.yaml"].replace("timeout: 60000", "timeout: 5000")

    shown = run(SUM, change=change)
    assert shown.returncode != 0, shown.stdout
    assert not log_lines(shown.stdout, "sum of squares.*")

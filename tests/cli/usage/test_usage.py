"""`vcctl usage`, `vcctl job list --history` and `vcctl job show` on a database of some runs."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.accounting.builders import START, run
from tests.cli.usage.database import filled, printed
from volcano.accounting.api import Batch
from volcano.accounting.store.database import Database
from volcano.accounting.store.recording import Recording
from volcano.cli.errors import UsageError
from volcano.services.errors import NotFoundError, ServiceError, Unreachable

SCREENS = Path(__file__).parents[1] / "screens"
COMMANDS = {
    "usage": "usage",
    "usage-by-user": "usage --by user,gpu-type --from 2027-01-01",
    "usage-by-day": "usage --by queue --period day --from 4d",
    "usage-prices": "usage --by queue --prices PRICES",
    "job-list-history": "job list --history -n team",
    "job-list-history-everywhere": "job list --history -A",
    "job-show": "job show train -n team",
    "job-view-deleted": "job view pretrain -n team",
}
PRICES = """\
currency: EUR
prices:
  cpu: 0.03
  gpu:
    default: 2
    H100: 4.5
queues:
  research: 0.5
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = filled(tmp_path / "a.db")
    yield opened
    opened.close()


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    (tmp_path / "prices.yaml").write_text(PRICES)
    return tmp_path / "prices.yaml"


@pytest.mark.parametrize("columns", [80, 200, None], ids=["80 columns", "200 columns", "a file"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_as_reviewed(name: str, columns: int | None, database: Database, prices: Path) -> None:
    words = COMMANDS[name].replace("PRICES", str(prices)).split()
    text = printed(database, words, columns)
    path = SCREENS / f"{name}.{columns or 'file'}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
    assert all(len(line) <= (columns or 10_000) for line in text.splitlines())


def test_json_has_hours_costs_and_the_total(database: Database, prices: Path) -> None:
    found = json.loads(printed(database, ["usage", "--prices", str(prices), "-o", "json"]))
    rows = {row["group"]["queue"]: row for row in found["items"]}
    assert found["currency"] == "EUR"
    research = rows["research"]
    assert research["hours"]["gpu"] == pytest.approx(9.5)
    assert research["hours"]["memory"] == pytest.approx(9.5 * 64)
    assert research["cost"] == pytest.approx(0.5 * (9.5 * 2 + 9.5 * 8 * 0.03))  # A100 has the default price
    production = rows["production"]
    assert production["cost"] == pytest.approx(30 * 8 * 4.5 + (30 * 96 + 3 * 4) * 0.03)
    assert found["total"]["cost"] == pytest.approx(research["cost"] + production["cost"])


def test_csv_has_a_line_for_each_group_and_hours_of_each_resource(database: Database) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(database, ["usage", "--by", "queue,user", "-o", "csv"]))))
    assert [(row["queue"], row["user"], row["gpu_hours"]) for row in rows] == [
        ("production", "bob", "240"),
        ("research", "jane", "9.5"),
        ("production", "", "0"),
    ]
    assert rows[0]["nvidia.com/gpu_hours"] == "240"


def test_a_spreadsheet_takes_no_name_for_a_formula(database: Database) -> None:
    Recording(database).write(Batch([run("f0", hours=1, user="=HYPERLINK(1)", at=START)]))
    rows = list(csv.DictReader(io.StringIO(printed(database, ["usage", "--by", "user", "-o", "csv"]))))
    assert "'=HYPERLINK(1)" in [row["user"] for row in rows]


def test_filters_select_usage(database: Database) -> None:
    words = ["usage", "--by", "job", "--for-user", "jane", "-n", "team", "-o", "csv"]
    assert [line.split(",")[0] for line in printed(database, words).splitlines()] == ["job", "train"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("usage --by colour", "--by 'colour': choose from queue, user, namespace, job, gpu-type"),
        ("usage --from yesterday", "--from 'yesterday': write a date"),
        ("usage --from 1d --to 2d", "is not before --to"),
        ("usage --period year", "--period 'year': choose from day, week, month"),
        ("usage -o xml", "-o: 'xml' is none of csv, json"),
        ("job list --from 7d", "--from is for the history of jobs; add --history"),
        ("job list --history --watch", "--watch cannot be used with --history"),
    ],
)
def test_a_wrong_flag_is_explained(words: str, message: str, database: Database) -> None:
    with pytest.raises(UsageError) as caught:
        printed(database, words.split())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prices: {cpu: free}", "prices.cpu is 'free'; write a number of 0 or more, such as 2.5"),
        ("prices: {cpu: -1}", "prices.cpu is -1; write a number of 0 or more"),
        ("price: {cpu: 1}", "unknown key 'price'; choose from currency, prices, queues"),
        ("prices: {}", "prices is empty; such as"),
        (
            "prices: {gpu: 1, nvidia.com/gpu: 2}",
            "prices.gpu and prices.nvidia.com/gpu count the same GPUs twice",
        ),
        ("prices: 3", "prices is 3; write a mapping of names to numbers"),
        ("- 1", "write a mapping with the keys currency, prices, queues"),
        ("prices: {gpu: {A100: expensive}}", "prices.gpu.A100 is 'expensive'"),
        ("prices: [", "prices.yaml: "),
    ],
)
def test_a_wrong_price_is_explained(text: str, message: str, database: Database, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ServiceError) as caught:
        printed(database, ["usage", "--prices", str(path)])
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_gpus_without_a_price_are_named(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("prices: {gpu: {H100: 1}}")
    assert "warning: GPUs of type 'A100' have no price" in printed(database, ["usage", "--prices", str(path)])


def test_without_accounting_the_way_to_enable_it_is_named() -> None:
    with pytest.raises(Unreachable, match="accounting is not enabled: start vc-controller-manager with"):
        printed(None, ["usage"])


def test_a_job_that_never_existed_is_missing(database: Database) -> None:
    with pytest.raises(NotFoundError, match="no job 'absent' was recorded in namespace 'team'"):
        printed(database, ["job", "show", "absent", "-n", "team"])
    with pytest.raises(NotFoundError):
        printed(database, ["job", "view", "absent", "-n", "team"])


def test_history_as_json_has_all_that_is_known(database: Database) -> None:
    found = json.loads(printed(database, ["job", "list", "--history", "-n", "team", "-o", "json"]))
    assert [(job["name"], job["phase"]) for job in found["items"]] == [
        ("train", "Running"),
        ("pretrain", "Completed"),
    ]
    shown = json.loads(printed(database, ["job", "show", "train", "-n", "team", "-o", "json"]))
    assert {run["pod"]: run["outcome"] for run in shown["runs"]} == {
        "pod-a0": "Completed",
        "pod-a1": "Evicted",
        "pod-a2": "Running",
    }

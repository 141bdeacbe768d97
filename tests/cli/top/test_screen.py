"""Screens as lines: trees, filters, orders, and every size of terminal."""

import os
from pathlib import Path

import pytest

from tests.views.pictures import NOW, picture, text_of
from volcano.cli.top.screen import identities
from volcano.cli.top.view import JOBS, NODES, PODS, QUEUES, Place, Request, View
from volcano.kube.api.manifest import Key
from volcano.views.board import Picture, board

# screens


def test_the_queues_are_a_tree_with_bars() -> None:
    lines = text_of(board(picture()), View())
    assert lines[0].startswith("volcano top  08:00:00  1 job running  1 waiting  2 nodes  https://host")
    assert lines[1].startswith("cpu ████············ 4/16  memory ")
    header = next(line for line in lines if "QUEUE" in line)
    assert header.split() == [
        "QUEUE",
        "STATE",
        "WEIGHT",
        "RUN",
        "WAIT",
        "CPU",
        "of",
        "16",
        "MEMORY",
        "of",
        "32Gi",
    ]
    assert "▶ root" in lines[lines.index(header) + 1]
    research = next(line for line in lines if line.startswith("    research"))
    assert research.split()[1:5] == ["Open", "3", "1", "1"]
    assert research.index("[") < research.index("]")
    assert lines[-3].startswith("root  cpu 4 |16")
    assert "q quit" in lines[-1]


def test_a_filter_keeps_what_matches() -> None:
    place = Place(pattern="VIS")
    assert identities(board(picture()), place) == ["vision"]
    assert "filter: VIS" in "\n".join(text_of(board(picture()), View((place,))))


def test_orders_order() -> None:
    seen = board(picture())
    assert identities(seen, Place(sort=1)) == ["root", "vision", "default", "research"]
    assert identities(seen, Place(sort=2)) == ["research", "root", "vision", "default"]
    assert identities(seen, Place(level=JOBS, queue="root", sort=1))[0] == "team/train"
    assert identities(seen, Place(level=PODS, job=Key("team", "train"))) == [
        "team/train-worker-0",
        "team/train-worker-1",
    ]


def test_a_queues_jobs_say_why_they_wait() -> None:
    lines = text_of(board(picture()), View((Place(), Place(level=JOBS, queue="research"))), width=130)
    assert any("queues › queue research" in line for line in lines)
    waiting = next(line for line in lines if "team" in line and "Pending" in line)
    assert "0/9" in waiting
    assert waiting.rstrip().endswith("not enough cpu")


def test_a_job_without_pods_says_so() -> None:
    view = View((Place(), Place(level=JOBS), Place(level=PODS, job=Key("team", "big"))))
    assert "  no pods yet: not enough cpu" in text_of(board(picture()), view)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("height", [5, 12, 40])
@pytest.mark.parametrize("level", [QUEUES, JOBS, PODS])
def test_every_screen_fits_every_terminal(width: int, height: int, level: str) -> None:
    view = View((Place(level=level, queue="root", job=Key("team", "train")),))
    lines = text_of(board(picture()), view, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_an_empty_cluster_has_a_screen() -> None:
    assert "no queues here" in "\n".join(text_of(board(Picture([], [], [], [], [], NOW)), View()))


# reviewed screens

SCREENS = Path(__file__).parents[1] / "screens"
VIEWS = {
    "top-queues": View(),
    "top-jobs": View((Place(), Place(level=JOBS, queue="research"))),
    "top-delete": View(
        (Place(), Place(level=JOBS, queue="research")), asking=Request("delete", Key("team", "train"))
    ),
    "top-pods": View(
        (Place(), Place(level=JOBS, queue="vision"), Place(level=PODS, job=Key("team", "train")))
    ),
    "top-nodes": View((Place(), Place(level=NODES))),
    "top-help": View(helping=True),
}


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", VIEWS)
def test_full_screens_are_as_reviewed(name: str, columns: int) -> None:
    lines = text_of(board(picture()), VIEWS[name], width=columns, height=20)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    path = SCREENS / f"{name}.{columns}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, lines)) <= columns


def test_a_node_shows_what_its_pods_request() -> None:
    rows = {row.key.name: row for row in board(picture()).node_rows()}
    assert (rows["n1"].pods, rows["n1"].used["cpu"], rows["n1"].dominant()) == (2, 4.0, 0.5)
    assert (rows["n2"].pods, rows["n2"].status) == (0, "Ready")

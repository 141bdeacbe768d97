"""What the screens show, counted from what the server shows."""

from tests.views.pictures import NOW, picture, pod
from volcano.kube.api.manifest import Key
from volcano.views.board import Picture, board

# rows


def test_a_board_counts_jobs_where_they_are_and_above() -> None:
    seen = board(picture())
    assert {name: dict(count) for name, count in seen.counts.items()} == {
        "vision": {"Running": 1, "Pending": 1},
        "research": {"Running": 1, "Pending": 1},
        "root": {"Running": 1, "Pending": 1, "Completed": 1},
        "default": {"Completed": 1},
    }
    assert [found.key.name for found in seen.jobs_in("research")] == ["big", "train"]
    assert (seen.nodes, seen.total["cpu"], seen.used["cpu"]) == (2, 16.0, 4.0)


def test_a_waiting_job_says_what_for_and_a_running_one_what_it_holds() -> None:
    jobs = {found.key.name: found for found in board(picture()).jobs}
    assert jobs["big"].waits_for == "not enough cpu"
    assert (jobs["train"].holds, jobs["train"].dominant({"cpu": 16.0})) == ({"cpu": 4.0}, 0.25)
    assert jobs["old"].holds == {}


def test_groups_without_a_job_are_shown_too() -> None:
    bare = {
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"queue": "default", "minMember": 1},
        "status": {"phase": "Running", "running": 1},
    }
    member = pod("x", 0)
    member["metadata"]["labels"] = {}
    member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "web"}
    seen = board(Picture([], [], [bare], [member], [], NOW))
    assert [(found.key.name, found.phase, found.holds) for found in seen.jobs] == [
        ("web", "Running", {"cpu": 2.0})
    ]
    assert [found.key.name for found in seen.pods_of(Key("team", "web"))] == ["x-worker-0"]

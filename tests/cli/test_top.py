"""vcctl top: shares, bars, keys and screens as values; the full screen in a terminal."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.terminal import COLOUR, Terminal
from volcano.cli.top.bars import Gauge, bar, fill_style, plain
from volcano.cli.top.board import Board, Picture, board, pod_requests
from volcano.cli.top.keyboard import keys
from volcano.cli.top.screen import identities, render
from volcano.cli.top.shares import amounts, cluster_total, deserved, queue_shares, resource_names, shown
from volcano.cli.top.view import JOBS, PODS, QUEUES, Place, View, press, window
from volcano.kube.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, JOB, QUEUE, ROLE, ROLE_BINDING
from volcano.kube.manifest import Key, Manifest

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:50:00Z"  # ten minutes before NOW


def queue(name: str, *, parent: str = "root", weight: int = 1, state: str = "Open", **spec: Any) -> Manifest:
    allocated = spec.pop("allocated", {})
    return {
        "metadata": {"name": name},
        "spec": {"weight": weight, **({"parent": parent} if name != "root" else {}), **spec},
        "status": {"state": state, "allocated": allocated},
    }


def node(name: str, ready: str = "True", taints: Sequence[Manifest] = (), **allocatable: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def job(name: str, queue_name: str = "default", phase: str = "Running", replicas: int = 2) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": CREATED},
        "spec": {"queue": queue_name, "minAvailable": 2, "tasks": [{"name": "worker", "replicas": replicas}]},
        "status": {"state": {"phase": phase}, "running": replicas if phase == "Running" else 0},
    }


def pod(of: str, index: int, cpu: str = "2", node_name: str = "n1", phase: str = "Running") -> Manifest:
    labels = {
        "volcano.sh/job-name": of,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
    }
    return {
        "metadata": {
            "name": f"{of}-worker-{index}",
            "namespace": "team",
            "labels": labels,
            "creationTimestamp": CREATED,
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": phase},
    }


def picture() -> Picture:
    waiting = {
        "metadata": {
            "name": "big-group",
            "namespace": "team",
            "ownerReferences": [{"uid": "big", "controller": True, "apiVersion": JOB.api_version, "kind": "Job"}],
        },
        "spec": {"queue": "vision"},
        "status": {"conditions": [{"type": "Unschedulable", "status": "True", "message": "not enough cpu"}]},
    }  # fmt: skip
    return Picture(
        queues=[
            queue("root", allocated={"cpu": "4"}),
            queue("default"),
            queue("research", weight=3, capability={"cpu": "12"}, guarantee={"resource": {"cpu": "2"}}),
            queue("vision", parent="research", allocated={"cpu": "4", "pods": "2"}),
        ],
        jobs=[job("train", "vision"), job("big", "vision", "Pending", 9), job("old", "default", "Completed")],
        groups=[waiting],
        pods=[pod("train", 1), pod("train", 0), pod("old", 0, phase="Succeeded")],
        nodes=[node("n1", cpu="8", memory="16Gi", pods="110"), node("n2", cpu="8", memory="16Gi")],
        now=NOW,
    )


def text_of(seen: Board, view: View, width: int = 110, height: int = 20) -> list[str]:
    return ["".join(text for text, _ in line) for line in render(seen, view, "https://host", width, height)]


# shares


def test_only_nodes_that_serve_are_shared() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    nodes = [node("a", cpu="4"), node("b", ready="False", cpu="4"), node("c", taints=[taint], cpu="4")]
    assert cluster_total(nodes) == {"cpu": 4.0}


def test_what_is_not_given_is_due_by_weight() -> None:
    due = deserved([queue("a", weight=1), queue("b", weight=3)], {"cpu": 16.0})
    assert due == {"a": {"cpu": 4.0}, "b": {"cpu": 12.0}}


def test_what_is_given_stands_and_the_others_share_the_rest() -> None:
    due = deserved(
        [queue("a", weight=9, deserved={"cpu": "10"}), queue("b"), queue("c", weight=2)], {"cpu": 16.0}
    )
    assert due == {"a": {"cpu": 10.0}, "b": {"cpu": 2.0}, "c": {"cpu": 4.0}}


def test_nobody_is_due_more_than_the_capability_or_less_than_the_guarantee() -> None:
    capped, held = (
        queue("capped", capability={"cpu": "2"}),
        queue("held", guarantee={"resource": {"cpu": "9"}}),
    )
    due = deserved([capped, held, queue("other")], {"cpu": 15.0})
    assert due == {"capped": {"cpu": 2.0}, "held": {"cpu": 9.0}, "other": {"cpu": 4.0}}


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 40)), min_size=1, max_size=6))
def test_shares_stay_within_their_bounds_and_use_up_the_pool(rows: list[tuple[int, int, int]]) -> None:
    queues = [
        queue(str(i), weight=weight, capability={"cpu": str(floor + more)}, guarantee={"resource": {"cpu": str(floor)}})
        for i, (weight, floor, more) in enumerate(rows)
    ]  # fmt: skip
    pool = 60.0
    due = [entry["cpu"] for entry in deserved(queues, {"cpu": pool}).values()]
    floors, ceilings = [floor for _, floor, _ in rows], [floor + more for _, floor, more in rows]
    assert all(
        low - 1e-6 <= part <= high + 1e-6 for low, part, high in zip(floors, due, ceilings, strict=True)
    )
    assert sum(due) == pytest.approx(min(max(pool, sum(floors)), sum(ceilings)))


def test_a_childs_due_comes_out_of_its_parents() -> None:
    shares = {share.name: share for share in queue_shares(picture().queues, {"cpu": 16.0})}
    assert shares["research"].deserved == {"cpu": 12.0}
    assert shares["vision"].deserved == {"cpu": 12.0}
    assert shares["vision"].path == ("root", "research", "vision")
    assert shares["default"].deserved == {"cpu": 4.0}


def test_queues_in_a_circle_and_orphans_stand_at_the_top() -> None:
    shares = queue_shares([queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="gone")], {})
    assert [(share.name, share.depth) for share in shares] == [("a", 0), ("b", 0), ("c", 0)]


def test_what_is_no_quantity_is_left_out() -> None:
    assert amounts({"cpu": "2", "memory": "lots"}) == {"cpu": 2.0}
    assert amounts(None) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 2.5, "2.5"), ("cpu", 42.6667, "42.7"), ("cpu", 128.0, "128"), ("cpu", 25_000.0, "25k"),
        ("memory", 80 * 2.0**30, "80Gi"), ("memory", 512 * 2.0**20, "512Mi"), ("memory", 0.0, "0"),
        ("nvidia.com/gpu", 5.0, "5"),
    ],
)  # fmt: skip
def test_amounts_are_short(resource: str, amount: float, text: str) -> None:
    assert shown(resource, amount) == text


def test_devices_come_after_processors_and_memory() -> None:
    assert resource_names({"x.com/b": 1, "a.com/a": 2, "c.com/none": 0}) == [
        "cpu",
        "memory",
        "a.com/a",
        "x.com/b",
    ]


# bars


@pytest.mark.parametrize(
    ("gauge", "text"),
    [
        pytest.param(Gauge(0, 10), "··········", id="empty"),
        pytest.param(Gauge(10, 10), "██████████", id="full"),
        pytest.param(Gauge(5, 10), "█████·····", id="half"),
        pytest.param(Gauge(0.01, 10), "▏·········", id="a trace shows"),
        pytest.param(Gauge(2.5, 10), "██▌·······", id="eighths"),
        pytest.param(Gauge(20, 10), "██████████", id="more than there is"),
        pytest.param(Gauge(3, 0), "··········", id="of nothing"),
        pytest.param(Gauge(4, 10, 2, 6, 9), "██[█··|··]", id="all marks"),
        pytest.param(Gauge(0, 10, 5, 5, 5), "····[|]···", id="marks that meet stand side by side"),
        pytest.param(Gauge(0, 10, capability=10), "·········]", id="a mark at the end stays inside"),
    ],
)
def test_a_bar_shows_use_and_marks(gauge: Gauge, text: str) -> None:
    assert plain(gauge, 10) == text if gauge.total else plain(gauge, 10).count("█") == 0


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0, 1e12), st.integers(0, 60))
def test_a_bar_is_as_long_as_asked(used: float, total: float, mark: float, width: int) -> None:
    assert len(plain(Gauge(used, total, mark, mark, mark), width)) == width


def test_a_bar_warns_by_colour() -> None:
    assert [fill_style(Gauge(used, 10, deserved=4, capability=8)) for used in (3, 5, 8)] == [
        "green",
        "yellow",
        "red",
    ]
    assert bar(Gauge(5, 10), 4)[0] == ("██", "green")


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


def test_a_pod_asks_for_its_containers_or_its_greediest_init_container() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "500m"}}}],
        "initContainers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    }
    assert pod_requests({"spec": spec}) == {"cpu": 1.5, "memory": 2.0**30}


# keys


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b[A\x1b[B", ["up", "down"]), (b"\x1bOC", ["right"]), (b"\x1b", ["escape"]), (b"q", ["q"]),
        (b"\r", ["enter"]), (b"\x7f", ["backspace"]), (b"a\xc3\xa9", ["a", "é"]), (b"\x1b[99;5u", []),
        (b"\x1b[5~", ["pageup"]), (b"\x01", []), (b"\x1b[", []), (b"\x1bq", ["escape", "q"]),
    ],
)  # fmt: skip
def test_bytes_are_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names


@given(st.binary(max_size=20))
def test_any_bytes_are_some_keys(data: bytes) -> None:
    assert all(isinstance(key, str) and key for key in keys(data))


def after(view: View, *pressed: str, rows: Sequence[str] = ("a", "b", "c")) -> View:
    for key in pressed:
        view = press(view, key, rows, page=2)
    return view


@pytest.mark.parametrize(
    ("pressed", "selected"),
    [
        (("down",), "b"), (("down", "down", "down"), "c"), (("up",), "a"), (("end",), "c"), (("end", "home"), "a"),
        (("pagedown",), "c"), (("j", "k"), "a"), (("G",), "c"), (("x",), "a"),
    ],
)  # fmt: skip
def test_keys_move_the_choice(pressed: tuple[str, ...], selected: str) -> None:
    assert after(View(), *pressed).place.selected == selected


def test_enter_opens_and_escape_goes_back_to_the_same_row() -> None:
    opened = after(View(), "down", "enter")
    assert (opened.place.level, opened.place.queue) == (JOBS, "b")
    deeper = after(opened, "enter", rows=["team/train"])
    assert (deeper.place.level, deeper.place.job) == (PODS, Key("team", "train"))
    assert after(deeper, "enter").place == deeper.place
    back = after(deeper, "escape", "left")
    assert (back.place.level, back.place.selected) == (QUEUES, "b")
    assert after(back, "escape") == back


def test_s_goes_through_the_orders() -> None:
    orders = [after(View(), *["s"] * times).place.order for times in range(5)]
    assert orders == ["tree", "share", "waiting", "name", "tree"]


def test_a_filter_is_typed_kept_and_taken_back() -> None:
    typing = after(View(), "/", "q", "s", "x", "backspace")
    assert (typing.typing, typing.place.pattern, typing.over) == (True, "qs", False)
    kept = after(typing, "enter")
    assert (kept.typing, kept.place.pattern) == (False, "qs")
    assert after(kept, "escape").place.pattern == ""
    assert after(typing, "escape").place.pattern == ""


@pytest.mark.parametrize("key", ["q", "interrupt"])
def test_q_and_control_c_quit(key: str) -> None:
    assert after(View(), key).over


def test_control_c_quits_while_typing() -> None:
    assert after(View(), "/", "interrupt").over


@given(st.integers(0, 50), st.integers(1, 51), st.integers(0, 30))
def test_the_chosen_row_is_always_on_the_screen(chosen: int, count: int, height: int) -> None:
    chosen = min(chosen, count - 1)
    visible = window(chosen, count, height)
    assert len(visible) == min(height, count)
    assert height == 0 or chosen in visible


# screens


def test_the_queues_are_a_tree_with_bars() -> None:
    lines = text_of(board(picture()), View())
    assert lines[0].startswith("volcano top  08:00:00  1 jobs running  1 waiting  2 nodes  https://host")
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


# the command


@pytest.fixture
def running_job(embedded: Embedded, namespace: str) -> str:
    """A job that runs, in a queue of its own."""
    embedded.create(
        QUEUE, {"metadata": {"name": f"{namespace}-queue"}, "spec": {"weight": 2, "capability": {"cpu": "8"}}}
    )
    container = {
        "name": "c", "image": "busybox", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "50m"}},
    }  # fmt: skip
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "minAvailable": 2,
        "schedulerName": "volcano",
        "queue": f"{namespace}-queue",
        "tasks": [{"name": "w", "replicas": 2, "template": template}],
    }
    embedded.create(JOB, {"metadata": {"name": "shown", "namespace": namespace}, "spec": spec})
    embedded.until(JOB, Key(namespace, "shown"), lambda job: job.get("status", {}).get("running") == 2)
    embedded.until(
        QUEUE,
        Key("", f"{namespace}-queue"),
        lambda queue: bool(queue["status"].get("allocated", {}).get("cpu")),
    )
    return "shown"


def test_without_a_terminal_it_is_a_table(vcctl: Vcctl, namespace: str, running_job: str) -> None:
    result = vcctl("top", "-n", namespace)
    assert (result.code, result.err) == (0, "")
    assert result.lines[0].split()[:4] == ["Queue", "State", "Weight", "Share"]
    mine = next(line for line in result.lines if f"{namespace}-queue" in line)
    assert mine.split()[1:3] == ["Open", "2"]
    assert "100m" not in mine
    assert "0.1/" in mine
    shown_job = next(line for line in result.lines if line.startswith("shown"))
    assert shown_job.split()[1:6] == [namespace, f"{namespace}-queue", "Running", "2/2", "2"]
    assert "\x1b" not in result.out


def test_as_data(vcctl: Vcctl, namespace: str, running_job: str) -> None:
    told = json.loads(vcctl("top", "-n", namespace, "-o", "json").out)
    assert [(job["name"], job["holds"]["cpu"]) for job in told["jobs"]] == [("shown", pytest.approx(0.1))]
    assert told["cluster"]["nodes"] == 4
    assert vcctl("top", "-o", "xml").code == 2


def test_no_server_is_told(run_command: Vcctl) -> None:
    result = run_command("top", "--server", "https://127.0.0.1:1")
    assert (result.code, result.out) == (4, "")
    assert "Failed to top" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("top",), ("queue", "tree"), ("job", "describe", "shown"), ("job", "logs", "shown"),
        ("job", "logs", "-f", "shown"), ("job", "wait", "shown"),
    ],
)  # fmt: skip
def test_without_rights_it_is_told_and_ends_with_4(
    vcctl: Vcctl, running_job: str, words: tuple[str, ...]
) -> None:
    result = vcctl(*words, "--as", "nobody")
    assert (result.code, result.out) == (4, "")
    assert 'is forbidden: User "nobody" cannot' in result.err


def test_whoever_may_see_queues_and_one_namespace_sees_those(
    vcctl: Vcctl, embedded: Embedded, namespace: str, running_job: str
) -> None:
    everyone = {"kind": "Group", "name": "people", "apiGroup": "rbac.authorization.k8s.io"}
    for kind, role, where, groups, resources in (
        (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, {}, ["scheduling.volcano.sh"], ["queues"]),
        (ROLE, ROLE_BINDING, {"namespace": namespace}, ["", "batch.volcano.sh"], ["jobs", "pods"]),
    ):
        metadata = {"name": f"{namespace}-people", **where}
        rules = [{"apiGroups": groups, "resources": resources, "verbs": ["list"]}]
        embedded.create(kind, {"metadata": metadata, "rules": rules})
        reference = {"kind": kind.kind, "name": metadata["name"], "apiGroup": "rbac.authorization.k8s.io"}
        embedded.create(role, {"metadata": metadata, "subjects": [everyone], "roleRef": reference})
    result = vcctl("top", "--as", "jane", "--as-group", "people")
    assert result.code == 0
    assert any(line.startswith("shown") for line in result.lines)
    assert f"pods of namespace {namespace} only" in result.err
    assert "no rights to list nodes" in result.err


def test_the_full_screen_follows_keys_and_leaves_no_trace(
    embedded: Embedded, kubeconfig: Path, namespace: str, running_job: str
) -> None:
    with Terminal("top", "-n", namespace, kubeconfig=kubeconfig) as terminal:
        assert "jobs running" in terminal.until("[ guarantee  | deserved  ] capability")
        assert "\x1b[?1049h" in terminal.output
        terminal.send(f"/{namespace}\r")
        terminal.until(f"filter: {namespace}", without="default")
        terminal.send("\r")
        assert "Running" in terminal.until("READY")
        terminal.send("\x1b[C")
        terminal.until("shown-w-1")
        terminal.send("s")
        terminal.until("by node")
        terminal.send("\x1b")
        terminal.until("WAITS FOR", without="shown-w-1")
        terminal.send("\x1b")
        terminal.until("QUEUE")
        embedded.create(QUEUE, {"metadata": {"name": f"{namespace}-late"}, "spec": {"weight": 1}})
        terminal.until(f"{namespace}-late")
        terminal.send("q")
        assert terminal.ends() == 0
        assert terminal.output.rstrip().endswith(("\x1b[?1049l", "\x1b[?25h"))


def test_a_server_that_goes_away_is_told_on_the_screen(tmp_path: Path) -> None:
    cluster = Embedded(tmp_path)
    with Terminal("top", kubeconfig=cluster.cluster.kubeconfig) as terminal:
        terminal.until("q quit")
        cluster.close()
        terminal.until("watch interrupted")
        terminal.send("q")
        assert terminal.ends() == 0


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_respected_on_the_full_screen(
    kubeconfig: Path, embedded: Embedded, variables: dict[str, str], coloured: bool
) -> None:
    with Terminal("top", kubeconfig=kubeconfig, environment=variables) as terminal:
        terminal.until("q quit")
        terminal.send("q")
        assert terminal.ends() == 0
        assert bool(COLOUR.search(terminal.output)) is coloured

"""vcctl job logs: every pod's lines, told apart, in order, and to the end of the job."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, start
from tests.cli.terminal import Terminal
from volcano.cli.job.log_printer import colour_of
from volcano.kube.api.kinds import JOB, POD, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.errors import NotFoundError
from volcano.services.logs.lines import Line, Seen, in_order, parse_line
from volcano.services.logs.sources import Wanted, check, sources, target_of

STAMP = "2026-01-02T03:04:05.000000001Z"


def line(second: float, text: str = "") -> Line:
    return Line(second, f"stamp {second}", text or str(second))


# lines


@pytest.mark.parametrize(
    ("raw", "stamp", "text"),
    [
        (f"{STAMP} hello world".encode(), STAMP, "hello world"),
        (b"2026-01-02T03:04:05Z hello", "2026-01-02T03:04:05Z", "hello"),
        (f"{STAMP} ".encode(), STAMP, ""),
        (b"Traceback (most recent call last):", "", "Traceback (most recent call last):"),
        (b"\xff\xfe", "", "\ufffd\ufffd"),
    ],
)
def test_a_line_has_a_time_and_a_text(raw: bytes, stamp: str, text: str) -> None:
    parsed = parse_line(raw)
    assert (parsed.stamp, parsed.text) == (stamp, text)
    assert (parsed.moment > 0) is bool(stamp)


def test_logs_are_merged_by_time_and_keep_their_own_order() -> None:
    merged = list(
        in_order([("a", [line(1), line(3), Line(0.0, "", "  more"), line(9)]), ("b", [line(2), line(4)])])
    )
    assert [(name, found.text) for name, found in merged] == [
        ("a", "1"), ("b", "2"), ("a", "3"), ("a", "  more"), ("b", "4"), ("a", "9"),
    ]  # fmt: skip


@given(st.lists(st.lists(st.integers(1, 5), max_size=6), max_size=4))
def test_merging_loses_nothing_and_reorders_no_log(logs: list[list[int]]) -> None:
    streams = [(str(i), [line(float(second)) for second in seconds]) for i, seconds in enumerate(logs)]
    merged = list(in_order(streams))
    for name, lines in streams:
        assert [found for owner, found in merged if owner == name] == lines


@given(st.lists(st.integers(1, 4), max_size=8).map(sorted), st.integers(0, 8))
def test_a_stream_opened_again_prints_each_line_once(seconds: list[int], cut: int) -> None:
    lines, seen = [line(float(second), str(i)) for i, second in enumerate(seconds)], Seen()
    printed = [found.text for found in lines[:cut] if seen.is_new(found)]
    seen.reopened()
    # The server starts again at the second of the last line that it was told.
    since = float(seen.since.split()[1]) if seen.since else 0.0
    printed += [found.text for found in lines if found.moment >= since and seen.is_new(found)]
    assert printed == [found.text for found in lines]


def test_tasks_differ_by_hue_and_indices_by_shade() -> None:
    assert len({colour_of(task, index) for task in range(3) for index in range(4)}) == 12


# which containers


def two_tasks() -> Manifest:
    manifest = job("train", "team", replicas=2)
    master = {
        "name": "master",
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "main"}, {"name": "side"}]}},
    }
    manifest["spec"]["tasks"].insert(0, master)
    return manifest


def member(task: str, index: int, **spec: Any) -> Manifest:
    labels = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    containers = {"containers": [{"name": "main"}, {"name": "side"}], "initContainers": [{"name": "prepare"}]}
    metadata = {"name": f"train-{task}-{index}", "namespace": "team", "labels": labels}
    return {"metadata": {**metadata, **spec}, "spec": containers}


@pytest.mark.parametrize(
    ("wanted", "titles", "containers"),
    [
        pytest.param(Wanted(), ["worker-1"], ["main"], id="the first container"),
        pytest.param(Wanted(container="side"), ["worker-1"], ["side"], id="the one named"),
        pytest.param(
            Wanted(all_containers=True), ["worker-1/prepare", "worker-1/main", "worker-1/side"],
            ["prepare", "main", "side"], id="all, those that prepare first",
        ),
    ],
)  # fmt: skip
def test_containers_of_a_pod(wanted: Wanted, titles: list[str], containers: list[str]) -> None:
    found = sources(member("worker", 1), two_tasks(), wanted)
    assert [source.title for source in found] == titles
    assert [source.container for source in found] == containers


def test_a_pod_may_say_which_container_is_its_main_one() -> None:
    annotated = member("worker", 0, annotations={"kubectl.kubernetes.io/default-container": "side"})
    assert [source.container for source in sources(annotated, two_tasks(), Wanted())] == ["side"]


def test_tasks_and_indices_choose_pods() -> None:
    assert Wanted(task="worker").takes(member("worker", 1))
    assert not Wanted(task="worker").takes(member("master", 0))
    assert not Wanted(index=0).takes(member("worker", 1))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(task="wroker"), "has no task 'wroker', but master, worker; did you mean 'worker'"),
        (Wanted(index=2), "no pod of index 2: they go from 0 to 1"),
        (Wanted(task="master", index=1), "they go from 0 to 0"),
        (Wanted(container="mian"), "has no container 'mian', but main, side; did you mean 'main'"),
    ],
)
def test_what_the_job_does_not_have_is_told(wanted: Wanted, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        check(wanted, two_tasks())


def test_the_request_says_what_is_wanted() -> None:
    (source,) = sources(member("worker", 1), two_tasks(), Wanted())
    path = "/api/v1/namespaces/team/pods/train-worker-1/log"
    assert target_of(source, Wanted(tail=5, since=0.2)) == (
        f"{path}?container=main&tailLines=5&sinceSeconds=1&timestamps=true"
    )
    again = target_of(source, Wanted(tail=5, since=60), follow=True, since="2026-01-02T03:04:05Z")
    assert again == f"{path}?container=main&follow=true&sinceTime=2026-01-02T03%3A04%3A05Z&timestamps=true"


# the command


def test_every_pods_lines_are_printed_under_its_name(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    start(embedded, job("done", namespace, seconds=0.1), "Completed")
    result = vcctl("job", "logs", "done")
    assert (result.code, result.err) == (0, "")
    assert sorted(result.lines) == [
        "worker-0 | simulated container main exited with 0",
        "worker-0 | simulated container main of image busybox started",
        "worker-1 | simulated container main exited with 0",
        "worker-1 | simulated container main of image busybox started",
    ]
    assert vcctl("job", "logs", "done", "--tail", "1", "--index", "1").lines == [
        "worker-1 | simulated container main exited with 0"
    ]
    bare = vcctl("job", "logs", "done", "--task", "worker", "-i", "0", "--no-prefix", "--timestamps").lines
    assert bare[0].startswith("20")
    assert bare[0].endswith("Z simulated container main of image busybox started")


def test_following_ends_with_the_job_and_repeats_nothing(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    embedded.create(JOB, job("short", namespace, seconds=0.8))
    result = vcctl("job", "logs", "-f", "short")
    assert result.code == 0
    assert sorted(result.lines) == [
        "worker-0 | simulated container main exited with 0",
        "worker-0 | simulated container main of image busybox started",
        "worker-1 | simulated container main exited with 0",
        "worker-1 | simulated container main of image busybox started",
    ]


def test_a_job_without_pods_says_why(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("big", namespace, cpu="9999", queue=closed_in(embedded, namespace)), "Pending")
    result = vcctl("job", "logs", "big")
    assert (result.code, result.out) == (0, "")
    assert f"job {namespace}/big is Pending and has no pods yet" in result.err


def test_pods_that_have_not_started_are_named(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("huge", namespace, cpu="500"), "Pending")
    embedded.until(POD, Key(namespace, "huge-worker-1"), lambda pod: True)
    result = vcctl("job", "logs", "huge")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [f"worker-{index}: has not started yet (Pending)" for index in (0, 1)]


def closed_in(embedded: Embedded, namespace: str) -> str:
    """A queue that lets nothing in: it may hold nothing."""
    name = f"{namespace}-tiny"
    embedded.create(QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1, "capability": {"cpu": "1m"}}})
    return name


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing",), 3, "job 'nothing' not found"),
        ((), 2, "job name is mandatory"),
        (("x", "--tail=-1"), 2, "--tail: -1 is negative"),
        (("x", "--since", "yesterday"), 2, "--since: 'yesterday'"),
        (("x", "--all", "-c", "main"), 2, "exclude each other"),
        (("x", "-f", "-p"), 2, "exclude each other"),
        (("x", "--tial", "3"), 2, "did you mean '--tail'?"),
    ],
)
def test_bad_input(vcctl: Vcctl, words: tuple[str, ...], code: int, said: str) -> None:
    result = vcctl("job", "logs", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_a_task_that_is_not_there_is_not_found(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("some", namespace), "Running")
    result = vcctl("job", "logs", "some", "--task", "wroker")
    assert result.code == 3
    assert "did you mean 'worker'?" in result.err


def test_no_server_is_4(run_command: Vcctl) -> None:
    assert run_command("job", "logs", "x").code == 4


def test_on_a_terminal_pods_have_colours_of_their_own(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    start(embedded, job("bright", namespace, seconds=0.1), "Completed")
    with Terminal("job", "logs", "bright", kubeconfig=kubeconfig) as terminal:
        assert terminal.ends() == 0
        for index in (0, 1):
            assert f"{colour_of(0, index)}worker-{index} |\x1b[0m simulated" in terminal.output
    with Terminal("job", "logs", "bright", kubeconfig=kubeconfig, environment={"NO_COLOR": "1"}) as terminal:
        assert terminal.ends() == 0
        assert "\x1b" not in terminal.output


def test_following_on_a_terminal_is_live_and_can_be_interrupted(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    start(embedded, job("long", namespace), "Running")
    with Terminal("job", "logs", "-f", "long", kubeconfig=kubeconfig) as terminal:
        terminal.until("worker-1 | simulated container main of image busybox started")
        terminal.send("\x03")
        assert terminal.ends() == 130
        assert "Traceback" not in terminal.output

"""extender: responses, errors and replay."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from tests.builders import START, job, node, resources
from tests.scenario import Result, cluster_of, config
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.cycle import schedule
from volcano.scheduler.plugins.extender.port import HttpPort, Port, Recorder, Replay

URL = "http://extender.test"
VERBS = {
    "predicate": "fits",
    "prioritize": "best",
    "preemptable": "preempt",
    "queueOverused": "overused",
    "jobEnqueueable": "admit",
    "jobReady": "ready",
    "allocateFunc": "placed",
    "deallocateFunc": "undone",
    "onSessionOpen": "open",
}


class FakeExtender:
    """Responds by verb; an unknown verb fails."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[tuple[str, Any]] = []

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        verb = url.removeprefix(f"{URL}/")
        payload = json.loads(body)
        self.requests.append((verb, payload))
        if verb not in self.answers:
            raise OSError("connection refused by the test")
        answer = self.answers[verb]
        return json.dumps(answer(payload) if callable(answer) else answer).encode()


def cycle(
    port: Port,
    *verbs: str,
    replicas: int = 1,
    phase: str = "Inqueue",
    ignorable: bool = False,
    managed: list[str] | None = None,
) -> Result:
    given: dict[str, Any] = {"extender.urlPrefix": URL, "extender.ignorable": ignorable}
    given |= {f"extender.{verb}Verb": VERBS[verb] for verb in verbs}
    if managed:
        given["extender.managedResources"] = managed
    settings = config(["gang", "predicates", {"name": "extender", "arguments": given}])
    cluster = cluster_of(
        nodes=[node("a", gpu=1), node("b", gpu=1)],
        jobs=[job("j", replicas, phase=phase, min_resources=resources(cpu=1))],
    )
    snapshot = cluster.snapshot(START, 1, None)
    return Result(schedule(snapshot, replace(settings, ports={"extender": port})), snapshot)


def test_it_says_which_nodes_fit() -> None:
    extender = FakeExtender(
        fits=lambda asked: {"status": "no" if asked["node"]["Name"] == "a" else "", "code": 2}
    )
    assert cycle(extender, "predicate").bound() == {"j-worker-0": "b"}


def test_it_says_which_node_is_best() -> None:
    for best in "ab":
        extender = FakeExtender(best={"nodeScore": {best: 1000}})
        assert cycle(extender, "prioritize").bound() == {"j-worker-0": best}


def test_its_refusal_is_a_reason_like_any_other() -> None:
    result = cycle(FakeExtender(fits={"status": "licence missing", "code": 3}), "predicate")
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert "2 licence missing" in diagnosis.message


@pytest.mark.parametrize(("status", "phase"), [(1, "Running"), (0, "Running"), (-1, "Pending")])
def test_it_votes_on_admission(status: int, phase: str) -> None:
    result = cycle(FakeExtender(admit={"status": status}), "jobEnqueueable", phase="Pending")
    assert (result.phase("j") == "Pending") is (phase == "Pending")


def test_a_queue_it_calls_overused_gets_nothing() -> None:
    assert cycle(FakeExtender(overused={"overused": True}), "queueOverused").bound() == {}


def test_a_job_it_calls_not_ready_is_not_started() -> None:
    assert cycle(FakeExtender(ready={"status": False}), "jobReady").bound() == {}
    assert len(cycle(FakeExtender(ready={"status": True}), "jobReady").bound()) == 1


def test_it_hears_what_was_placed_and_what_was_undone() -> None:
    extender = FakeExtender(placed={}, undone={})
    assert len(cycle(extender, "allocateFunc", "deallocateFunc").bound()) == 1
    assert [verb for verb, _ in extender.requests] == ["placed"]
    extender = FakeExtender(placed={}, undone={})
    assert cycle(extender, "allocateFunc", "deallocateFunc", replicas=9).bound() == {}
    verbs = [verb for verb, _ in extender.requests]
    assert verbs.count("placed") == verbs.count("undone") > 0


@pytest.mark.parametrize(
    ("verb", "ignorable", "bound"),
    [
        pytest.param("predicate", False, 0, id="no answer means no node"),
        pytest.param("predicate", True, 1, id="unless it does not matter"),
        pytest.param("prioritize", False, 0, id="no scores: the job is set aside"),
        pytest.param("prioritize", True, 1, id="unless scores do not matter"),
        pytest.param("queueOverused", False, 0, id="no answer means overused"),
        pytest.param("queueOverused", True, 1, id="unless it does not matter to the queue"),
        pytest.param("jobReady", False, 1, id="no answer means ready"),
        pytest.param("jobReady", True, 0, id="and not ready when ignored"),
    ],
)
def test_without_a_response(verb: str, ignorable: bool, bound: int) -> None:
    result = cycle(FakeExtender(), verb, ignorable=ignorable)
    assert len(result.bound()) == bound


def test_who_cannot_be_greeted_is_not_asked() -> None:
    extender = FakeExtender(fits={"status": "no", "code": 2})
    assert len(cycle(extender, "onSessionOpen", "predicate").bound()) == 1
    assert len(cycle(extender, "onSessionOpen", "predicate", ignorable=True).bound()) == 0


def test_tasks_without_its_resources_are_none_of_its_business() -> None:
    extender = FakeExtender(fits={"status": "no", "code": 2})
    assert len(cycle(extender, "predicate", managed=["nvidia.com/gpu"]).bound()) == 1
    assert extender.requests == []


def test_it_is_sent_everything_when_a_session_opens() -> None:
    extender = FakeExtender(open={})
    cycle(extender, "onSessionOpen")
    sent = extender.requests[0][1]
    assert set(sent) == {"Jobs", "Nodes", "Queues", "NamespaceInfo", "RevocableNodes", "NodeList"}
    assert sent["NodeList"] == ["a", "b"]


def test_a_recorded_cycle_is_replayed_without_going_out() -> None:
    extender = FakeExtender(
        fits=lambda asked: {"status": "no" if asked["node"]["Name"] == "a" else "", "code": 2}
    )
    recorder = Recorder(extender)
    recorded = cycle(recorder, "predicate")
    heard = len(extender.requests)
    replayed = cycle(Replay(recorder.answers, recorder.failures), "predicate")
    assert replayed.bound() == recorded.bound() == {"j-worker-0": "b"}
    assert len(extender.requests) == heard


def test_recorded_failures_fail_again() -> None:
    recorder = Recorder(FakeExtender())
    assert cycle(recorder, "predicate").bound() == {}
    result = cycle(Replay(recorder.answers, recorder.failures), "predicate")
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert "connection refused by the test" in diagnosis.message


def test_a_scheduler_without_a_port_says_so() -> None:
    given = {"extender.urlPrefix": URL, "extender.predicateVerb": "fits"}
    settings = config(["gang", {"name": "extender", "arguments": given}])
    snapshot = cluster_of(nodes=[node("a")], jobs=[job("j")]).snapshot(START, 1, None)
    diagnosis = Result(schedule(snapshot, settings), snapshot).diagnosis("j")
    assert diagnosis is not None
    assert "no way to reach" in diagnosis.message


class Handler(BaseHTTPRequestHandler):
    """Responds to /ok with the request body, to anything else with an error."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/ok" else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silences the log."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def test_the_port_over_http(server: str) -> None:
    assert HttpPort().post(f"{server}/ok", b'{"a": 1}', 5) == b'{"a": 1}'
    with pytest.raises(ValueError, match="503"):
        HttpPort().post(f"{server}/bad", b"{}", 5)
    with pytest.raises(ValueError, match="not an address"):
        HttpPort().post("extender:80", b"{}", 5)


def test_an_extender_without_verbs_is_asked_nothing() -> None:
    extender = FakeExtender()
    assert len(cycle(extender).bound()) == 1
    assert extender.requests == []


def test_the_program_hands_its_port_to_whatever_configuration_is_in_force() -> None:
    extender = FakeExtender(fits={"status": "no", "code": 2})
    text = yaml.safe_dump(
        {
            "actions": "allocate",
            "tiers": [
                {
                    "plugins": [
                        {
                            "name": "extender",
                            "arguments": {"extender.urlPrefix": URL, "extender.predicateVerb": "fits"},
                        }
                    ]
                }
            ],
        }
    )
    source = ConfigSource(text, ports={"extender": extender})
    assert source.current is not None
    snapshot = cluster_of(nodes=[node("a")], jobs=[job("j")]).snapshot(START, 1, None)
    schedule(snapshot, source.current)
    assert {verb for verb, _ in extender.requests} == {"fits"}

"""vcctl job describe: spec, gang, tasks with pods and nodes, policies, conditions, events and retries in one screen."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded, Vcctl, eventually
from tests.cli.jobs import job, start
from tests.cli.terminal import COLOUR, Terminal
from volcano.cli.job.summary import summarise
from volcano.kube.api.manifest import Manifest


def described(phase: str = "Pending", **parts: Manifest) -> Manifest:
    manifest = job("train", "team", replicas=3, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    manifest["metadata"] |= {"uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    manifest["spec"] |= {"queue": "research", "maxRetry": 5, "plugins": {"svc": ["--x"]}, "minSuccess": 2}
    manifest["spec"]["tasks"][0]["policies"] = [{"exitCode": 3, "action": "AbortJob", "timeout": "5m"}]
    manifest["status"] = {"state": {"phase": phase}, "retryCount": 2, "conditions": [{"status": phase}]}
    return {**manifest, **parts}


def pod(name: str, index: str, uid: str, **status: object) -> Manifest:
    labels = {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": index}
    metadata = {"name": name, "uid": uid, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running", **status}}


GROUP: Manifest = {
    "metadata": {"name": "train-u1", "uid": "g1"},
    "spec": {"minResources": {"cpu": "3", "requests.cpu": "3", "count/pods": "3", "pods": "3"}},
    "status": {
        "phase": "Inqueue",
        "conditions": [{"type": "Unschedulable", "status": "True", "message": "no room"}],
    },
}


def event(kind: str, name: str, uid: str, last: str) -> Manifest:
    involved = {"kind": kind, "name": name, **({"uid": uid} if uid else {})}
    return {"involvedObject": involved, "reason": f"{kind}Happened", "lastTimestamp": last, "count": 2}


def test_the_spec_is_summed_up() -> None:
    told = summarise(described(), None, [], [], {"status": {"state": "Open"}, "spec": {"weight": 3}})
    assert told["spec"]["queue"] == {"name": "research", "state": "Open", "weight": 3}
    assert (told["spec"]["minAvailable"], told["spec"]["replicas"], told["spec"]["minSuccess"]) == (3, 3, 2)
    assert told["spec"]["plugins"] == {"svc": ["--x"]}
    assert told["retries"] == {"count": 2, "max": 5}


def test_devices_with_a_limit_only_are_requested_too() -> None:
    manifest = described()
    (container,) = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "6"}, "limits": {"cpu": "8", "nvidia.com/gpu": "8"}}
    (task,) = summarise(manifest, None, [], [], None)["tasks"]
    assert task["requests"] == {"cpu": "6", "nvidia.com/gpu": "8"}


def test_the_gang_says_what_it_waits_for() -> None:
    gang = summarise(described(), GROUP, [pod("a", "0", "p0")], [], None)["gang"]
    assert (gang["podGroup"], gang["phase"], gang["ready"], gang["minimum"]) == ("train-u1", "Inqueue", 1, 3)
    assert gang["waitsFor"] == "no room"
    assert gang["minResources"] == {"cpu": "3"}
    assert summarise(described("Running"), GROUP, [], [], None)["gang"]["waitsFor"] == ""


def test_pods_come_in_order_with_restarts_and_exit_codes() -> None:
    ended = {
        "containerStatuses": [
            {"restartCount": 4, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
        ]
    }
    pods = [pod("train-worker-10", "10", "p10"), pod("train-worker-2", "2", "p2", **ended)]
    (task,) = summarise(described(), None, pods, [], None)["tasks"]
    assert [(found["name"], found["restarts"], found.get("exitCode")) for found in task["pods"]] == [
        ("train-worker-2", 4, 137),
        ("train-worker-10", 0, None),
    ]
    assert (task["pods"][0]["status"], task["pods"][0]["node"]) == ("OOMKilled", "n1")
    assert task["command"] == "sleep 600"


def test_policies_of_the_job_come_before_those_of_tasks() -> None:
    assert summarise(described(), None, [], [], None)["policies"] == [
        {"task": "", "events": ["PodEvicted"], "action": "RestartJob"},
        {"task": "worker", "events": [], "exitCode": 3, "action": "AbortJob", "timeout": "5m"},
    ]


def test_events_are_those_of_the_job_its_group_and_its_pods_oldest_first() -> None:
    events = [
        event("Pod", "a", "p0", "2026-01-01T00:00:03Z"),
        event("PodGroup", "train-u1", "", "2026-01-01T00:00:02Z"),
        event("Job", "train", "u1", "2026-01-01T00:00:01Z"),
        event("Job", "train", "of an older namesake", "2026-01-01T00:00:01Z"),
        event("Pod", "b", "p9", "2026-01-01T00:00:01Z"),
    ]
    told = summarise(described(), None, [pod("a", "0", "p0")], events, None)["events"]
    assert [found["object"] for found in told] == ["job/train", "podgroup/train-u1", "pod/a"]


def test_a_job_that_nobody_has_looked_at_can_be_described() -> None:
    told = summarise({"metadata": {"name": "new"}, "spec": {}}, None, [], [], None)
    assert (told["phase"], told["tasks"], told["events"], told["gang"]["podGroup"]) == ("Pending", [], [], "")
    assert told["spec"]["queue"]["state"] == "not found"


def test_one_screen_shows_everything(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    start(embedded, job("whole", namespace, policies=policies, plugins={"env": []}), "Running")
    assert eventually(lambda: "podgroup/whole " in vcctl("job", "describe", "whole").out)
    result = vcctl("job", "describe", "whole")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == "Job whole  Running"
    for part in (
        "Queue:          default (Open, weight 1)", "Retries:        0 of 3", "Plugins:        env",
        "Gang: 2 ready, 2 needed together", "Task worker: 2 pods, at least 2", "whole-worker-1", "node-",
        "Policies", "PodEvicted", "RestartJob", "Conditions", "Events", "podgroup/whole ",
    ):  # fmt: skip
        assert part in result.out
    assert "\x1b" not in result.out


def test_a_waiting_job_says_why(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("big", namespace, cpu="9999"), "Pending")
    told = json.loads(vcctl("job", "describe", "-n", "big", "-o", "json").out)
    assert (told["phase"], told["gang"]["ready"]) == ("Pending", 0)
    text = vcctl("job", "describe", "big").out
    assert "Gang: 0 ready, 2 needed together" in text
    assert told["gang"]["podGroup"].startswith("big-")
    assert f"PodGroup:  {told['gang']['phase']}" in text


def test_as_yaml(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("data", namespace), "Running")
    assert "podGroup: data-" in vcctl("job", "describe", "data", "-o", "yaml").out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing",), 3, "job 'nothing' not found"),
        ((), 2, "job name is mandatory"),
        (("x", "-o", "xml"), 2, "json, yaml"),
        (("x", "--kubeconfig", "/nowhere/at/all"), 4, "/nowhere/at/all"),
    ],
)
def test_bad_input(vcctl: Vcctl, words: tuple[str, ...], code: int, said: str) -> None:
    result = vcctl("job", "describe", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals(
    embedded: Embedded, kubeconfig: Path, namespace: str, variables: dict[str, str], coloured: bool
) -> None:
    start(embedded, job("shown", namespace), "Running")
    with Terminal(
        "job", "describe", "shown", kubeconfig=kubeconfig, columns=70, environment=variables
    ) as terminal:
        assert terminal.ends() == 0
        assert bool(COLOUR.search(terminal.output)) is coloured
        table = [
            line for line in terminal.screen.splitlines() if "podgroup/" in line or "shown-worker" in line
        ]
        assert table
        assert max(map(len, table)) <= 70

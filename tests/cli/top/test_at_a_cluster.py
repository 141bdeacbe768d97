"""vcctl top at a cluster: as a table, as data, without rights, and full screen in a terminal."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.terminal import COLOUR, Terminal
from volcano.kube.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, JOB, QUEUE, ROLE, ROLE_BINDING
from volcano.kube.api.manifest import Key

pytestmark = pytest.mark.slow

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
    assert result.err.startswith("cannot show the cluster: ")
    assert "connection refused" in result.err
    assert "Errno" not in result.err


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


@pytest.mark.slow
def test_the_full_screen_follows_keys_and_leaves_no_trace(
    embedded: Embedded, kubeconfig: Path, namespace: str, running_job: str
) -> None:
    with Terminal("top", "-n", namespace, kubeconfig=kubeconfig) as terminal:
        assert " running" in terminal.until("[ guarantee  | deserved  ] capability")
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


def test_a_tenant_with_the_role_edit_in_one_namespace_sees_and_manages_its_jobs(
    embedded: Embedded, vcctl: Vcctl, kubeconfig: Path, namespace: str, running_job: str
) -> None:
    embedded.create(
        ROLE_BINDING,
        {
            "metadata": {"name": "tenant", "namespace": namespace},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"},
        },
    )
    once = vcctl("top", "--once", "--as", "jane")
    assert once.code == 0, once.err
    assert "no rights to list queues" in once.err
    assert any(line.startswith("shown") for line in once.lines)
    with Terminal("top", "--as", "jane", kubeconfig=kubeconfig) as terminal:
        terminal.until("shown")
        terminal.send("?")
        terminal.until("delete the selected job, after confirmation")
        terminal.send("x")
        terminal.until("READY")
        terminal.send("p")
        terminal.until(f"suspend job {namespace}/shown? y: yes")
        terminal.send("y")
        terminal.until("Aborted")
        terminal.send("r")
        terminal.until("Running", without="Aborted")
        terminal.send("d")
        terminal.until("delete job")
        terminal.send("y")
        terminal.until("no jobs here")
        terminal.send("q")
        assert terminal.ends() == 0

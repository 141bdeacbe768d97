"""Queues from the command line: create, list, get, operate, update, delete."""

import itertools

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, start
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"queue-{next(_numbers)}"


def test_a_queue_is_created_with_its_weight_and_confirmed(
    vcctl: Vcctl, embedded: Embedded, name: str
) -> None:
    result = vcctl("queue", "create", "-n", name, "-w", "2")
    assert (result.code, result.out, result.err) == (0, f"create queue {name} successfully\n", "")
    assert embedded.get(QUEUE, Key("", name))["spec"]["weight"] == 2


def test_without_a_name_the_queue_is_called_test(vcctl: Vcctl, embedded: Embedded) -> None:
    assert vcctl("queue", "create").code == 0
    assert embedded.get(QUEUE, Key("", "test"))["spec"]["weight"] == 1
    assert vcctl("queue", "delete", "test").code == 0


def test_the_list_counts_podgroups_by_queue_and_phase(
    vcctl: Vcctl, embedded: Embedded, namespace: str, name: str
) -> None:
    vcctl("queue", "create", name)
    embedded.until(
        QUEUE, Key("", name), lambda queue: bool(queue["spec"].get("parent")) and "status" in queue
    )
    for number, phase in enumerate(("Running", "Running", "Unknown")):
        embedded.create(POD_GROUP, {
            "metadata": {"name": f"{name}-{number}", "namespace": namespace},
            "spec": {"queue": name, "minMember": 0},
            "status": {"phase": phase},
        })  # fmt: skip
    result = vcctl("queue", "list")
    assert result.lines[0] == (
        f"{'Name':25}{'Weight':8}{'State':8}{'Parent':8}{'Inqueue':8}{'Pending':8}{'Running':8}{'Unknown':8}Completed"
    )
    row = next(line for line in result.lines if line.startswith(f"{name} "))
    assert row[:49] == f"{name:25}{'1':8}{'Open':8}{'root':8}"
    assert sum(map(int, row.split()[4:])) == 3


def test_get_shows_one_queue(vcctl: Vcctl, name: str) -> None:
    vcctl("queue", "create", name, "-w", "7")
    assert vcctl("queue", "get", "-n", name).lines[1].split()[:2] == [name, "7"]
    assert vcctl("queue", "get", name, "-o", "jsonpath={.spec.weight}").out == "7"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("get", "name is mandatory to get the particular queue details", id="get"),
        pytest.param("delete", "queue name must be specified", id="delete"),
        pytest.param("operate -a open", "queue name must be specified", id="operate"),
        pytest.param("operate -n q", "action can not be null", id="no-action"),
        pytest.param(
            "operate -n q -a melt",
            "action melt invalid, valid actions are open, close and update",
            id="bad-action",
        ),
        pytest.param("operate -n q -a update", "weight must be specified", id="no-weight"),
        pytest.param("update -n q", "nothing to change", id="nothing"),
        pytest.param("create -w heavy", "invalid int value: 'heavy'", id="not-a-number"),
        pytest.param(
            "create q --deserved cpu", "--deserved: invalid argument syntax 'cpu'", id="bad-resources"
        ),
        pytest.param("create q --deserved cpu=a", "'a' is not a quantity", id="bad-quantity"),
    ],
)
def test_bad_input_is_a_usage_error(vcctl: Vcctl, words: str, message: str) -> None:
    result = vcctl("queue", *words.split())
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_queue_is_closed_and_opened_by_commands(vcctl: Vcctl, embedded: Embedded, name: str) -> None:
    vcctl("queue", "create", name)
    for action, state in (("close", "Closed"), ("open", "Open")):
        result = vcctl("queue", "operate", "-n", name, "-a", action)
        assert (result.code, result.out) == (0, f"{action} queue {name} successfully\n")
        again = vcctl("queue", "operate", "-n", name, "-a", action)
        assert (again.code, again.err) == (
            1,
            f"Failed to operate queue: queue {name} is {state.lower()} already\n",
        )
        embedded.until(QUEUE, Key("", name), lambda queue, s=state: queue["status"].get("state") == s)  # type: ignore[misc]
        assert vcctl("queue", "get", name, "-o", "jsonpath={.status.state}").out == state


def test_operate_changes_the_weight(vcctl: Vcctl, embedded: Embedded, name: str) -> None:
    vcctl("queue", "create", name)
    assert vcctl("queue", "operate", "-n", name, "-a", "update", "-w", "9").code == 0
    assert embedded.get(QUEUE, Key("", name))["spec"]["weight"] == 9


def test_update_replaces_what_is_named_and_keeps_the_rest(
    vcctl: Vcctl, embedded: Embedded, name: str
) -> None:
    vcctl("queue", "create", name, "-w", "3", "--capability", "cpu=8,memory=8Gi", "--priority", "5")
    result = vcctl(
        "queue", "update", name, "--capability", "cpu=4", "--guarantee", "cpu=1", "--reclaimable", "false"
    )
    assert (result.code, result.out) == (0, f"update queue {name} successfully\n")
    spec = embedded.get(QUEUE, Key("", name))["spec"]
    assert (spec["weight"], spec["priority"], spec["reclaimable"]) == (3, 5, False)
    assert (spec["capability"], spec["guarantee"]) == ({"cpu": "4"}, {"resource": {"cpu": "1"}})


def test_a_queue_is_deleted_and_confirmed(vcctl: Vcctl, embedded: Embedded, name: str) -> None:
    vcctl("queue", "create", name)
    result = vcctl("queue", "delete", "-n", name)
    assert (result.code, result.out) == (0, f"delete queue {name} successfully\n")
    with pytest.raises(NotFound):
        embedded.get(QUEUE, Key("", name))


@pytest.mark.parametrize(
    "words", ["get", "delete", "operate -a open", "operate -a update -w 2", "update -w 2"]
)
def test_a_wrong_name_suggests_the_near_one(vcctl: Vcctl, words: str) -> None:
    action = words.split()[0]
    result = vcctl("queue", *words.split(), "-n", "defualt")
    assert (result.code, result.out) == (3, "")
    assert result.err == f"Failed to {action} queue: queue 'defualt' not found; did you mean 'default'?\n"


def test_what_the_server_refuses_is_a_failure(vcctl: Vcctl) -> None:
    result = vcctl("queue", "delete", "root")
    assert (result.code, result.out) == (4, "")
    assert "`root` queue can not be deleted" in result.err


def test_a_queue_with_unfinished_jobs_is_deleted_only_with_yes(
    vcctl: Vcctl, embedded: Embedded, namespace: str, name: str
) -> None:
    vcctl("queue", "create", name)
    start(embedded, job("busy", namespace, queue=name), "Running")
    refused = vcctl("queue", "delete", name)
    assert (refused.code, refused.out) == (1, "")
    assert f"queue {name} has 1 unfinished job; add --yes to delete it anyway" in refused.err
    assert embedded.get(QUEUE, Key("", name))["metadata"]["name"] == name
    vcctl("queue", "operate", name, "-a", "close")
    assert "unfinished" not in vcctl("queue", "delete", name, "--yes").err

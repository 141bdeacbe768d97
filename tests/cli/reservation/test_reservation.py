"""Reservations from the command line: create, list, delete, and what is wrong with bad ones."""

import json

import pytest

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.kinds import NODE_RESERVATION, POD_GROUP
from volcano.kube.api.manifest import Key
from volcano.model.reservations import reserved_message


def test_nodes_are_reserved_listed_and_released(vcctl: Vcctl, embedded: Embedded) -> None:
    result = vcctl(
        "reservation", "create", "upgrade", "--nodes", "n1,n2", "--start", "2030-03-01T08:00+00:00",
        "--duration", "4h", "--lead", "12h", "--reason", "new kernel",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.out.startswith("create reservation upgrade successfully")
    made = embedded.get(NODE_RESERVATION, Key("", "upgrade"))["spec"]
    assert made == {
        "nodes": {"names": ["n1", "n2"]},
        "startTime": "2030-03-01T08:00:00Z",
        "endTime": "2030-03-01T12:00:00Z",
        "leadTime": "43200s",
        "reason": "new kernel",
    }
    line = vcctl("reservation", "list").lines[1]
    assert line.split()[:5] == [
        "upgrade",
        "maintenance",
        "Waiting",
        "2030-03-01T08:00:00Z",
        "2030-03-01T12:00:00Z",
    ]
    assert vcctl("reservation", "delete", "upgrade").code == 0
    assert "not found" in vcctl("reservation", "delete", "upgrade").err


def test_a_reservation_for_a_queue_begins_now(vcctl: Vcctl) -> None:
    made = vcctl(
        "reservation", "create", "deadline", "-l", "pool=gpu", "--count", "2", "-q", "default", "--duration", "2-00"
    )  # fmt: skip
    assert made.code == 0, made.err
    (found,) = json.loads(vcctl("reservation", "list", "-o", "json").out)["items"]
    assert (found["for"], found["state"]) == ("queue default", "Active")
    vcctl("reservation", "delete", "deadline")


def test_gangs_that_nodes_are_reserved_for_are_listed(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    message = reserved_message("KnownEnds", 1_900_000_000.0, ["n1", "n2", "n3"])
    condition = {"type": "Reserved", "status": "True", "reason": "KnownEnds", "message": message}
    embedded.create(
        POD_GROUP,
        {
            "apiVersion": POD_GROUP.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": namespace},
            "spec": {"minMember": 3, "queue": "default"},
            "status": {"conditions": [condition]},
        },
    )
    lines = [line for line in vcctl("reservation", "list").lines if f"{namespace}/gang" in line]
    assert len(lines) == 1
    assert "gang of queue default" in lines[0]
    assert "2030-03-17T17:46:40Z" in lines[0]
    assert "3: n1, n2, n3" in lines[0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--duration", "1h"], "give the nodes", id="no nodes"),
        pytest.param(["--nodes", "n1"], "give either --end or --duration", id="no end"),
        pytest.param(["--nodes", "n1", "--duration", "soon"], "must be a duration such as 2h", id="duration"),
        pytest.param(["--nodes", "n1", "--end", "later"], "must be now, +2h, or a time such as", id="time"),
        pytest.param(
            ["--nodes", "n1", "--start", "+2h", "--end", "+1h"], "is not after the start", id="order"
        ),
        pytest.param(["--nodes", "n1", "--count", "2", "--duration", "1h"], "leave it out", id="count"),
        pytest.param(["-l", "pool", "--duration", "1h"], "key=value", id="selector"),
        pytest.param(
            ["--nodes", "n1", "--duration", "1h", "-q", "ghost"], "queue 'ghost' does not exist", id="queue"
        ),
    ],
)
def test_what_cannot_be_reserved_is_explained(vcctl: Vcctl, words: list[str], problem: str) -> None:
    result = vcctl("reservation", "create", "bad", *words)
    assert result.code != 0
    assert problem in result.err

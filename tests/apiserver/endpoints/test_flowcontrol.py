"""Priority and fairness: a user who floods the server is delayed or gets 429; other users and components are not."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from volcano.apiserver.endpoints.flowcontrol import (
    BYTES_PER_SEAT,
    LEVELS,
    MAX_QUEUED,
    Flow,
    FlowControl,
    PriorityLevel,
    Rejected,
)
from volcano.apiserver.endpoints.request_info import new_request_info
from volcano.apiserver.interfaces import Attributes, Lookup, User, admission_plugin
from volcano.base.http.server import Server
from volcano.kube.api.manifest import Manifest

AUTHENTICATED = "system:authenticated"
ALICE, BOB = User("alice", (AUTHENTICATED,)), User("bob", (AUTHENTICATED,))
ACCOUNT_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED)
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("user", "path", "expected"),
    [
        (User("admin", ("system:masters",)), MAPS, None),
        (User("system:node:n1", ("system:nodes", AUTHENTICATED)), "/api/v1/nodes/n1", "system-nodes"),
        (
            User("system:node:n1", ("system:nodes", AUTHENTICATED)),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
            "system-node-high",
        ),
        (User("system:kube-scheduler", (AUTHENTICATED,)), MAPS, "kube-system-service-accounts"),
        (
            User("system:kube-scheduler", (AUTHENTICATED,)),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
            "system-leader-election",
        ),
        (User("a", ("system:serviceaccounts:volcano-system",)), MAPS, "kube-system-service-accounts"),
        (User("a", ACCOUNT_GROUPS), MAPS, "service-accounts"),
        (ALICE, MAPS, "global-default"),
        (User("system:anonymous", ("system:unauthenticated",)), "/version", "catch-all"),
        (User("system:anonymous", ("system:unauthenticated",)), "/livez", None),
        (ALICE, "/api/v1/namespaces/default/pods/p/log", None),
    ],
)
def test_requests_belong_to_the_priority_levels_of_kubernetes(
    user: User, path: str, expected: str | None
) -> None:
    schema = FlowControl().classify(user, new_request_info("GET", path))
    assert (schema.name if schema else None) == expected


async def test_one_flow_leaves_seats_for_another() -> None:
    level = PriorityLevel("level", 10)
    alice, bob = level.flow("alice"), level.flow("bob")
    started = [level.try_start(alice, 1) for _ in range(20)]
    assert sum(started) == 3  # two flows and one more that may come
    assert level.try_start(bob, 1)


async def test_flows_that_wait_are_served_in_turn() -> None:
    level = PriorityLevel("level", 2)
    blocking = level.flow("first")
    assert level.try_start(blocking, 1)
    order: list[str] = []

    async def request(user: str) -> None:
        flow = level.flow(user)
        if not level.try_start(flow, 1):
            await level.wait(flow, 1)
        order.append(user)
        await asyncio.sleep(0)
        level.finish(flow, 1)

    level.executing += 1  # no seat is free
    tasks = [asyncio.create_task(request("alice")) for _ in range(20)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(request("bob")) for _ in range(3)]
    await asyncio.sleep(0)
    level.executing -= 1
    level.finish(blocking, 1)
    await asyncio.gather(*tasks)
    assert [place for place, user in enumerate(order) if user == "bob"][-1] < 8
    assert (level.executing, level.queued, level._flows) == (0, 0, {})


async def test_a_full_queue_rejects_with_retry_after() -> None:
    level = PriorityLevel("level", 1)
    flow = level.flow("alice")
    assert level.try_start(flow, 1)
    waiting = [asyncio.create_task(level.wait(flow, 1)) for _ in range(MAX_QUEUED)]
    await asyncio.sleep(0)
    with pytest.raises(Rejected) as raised:
        await level.wait(flow, 1)
    assert (raised.value.code, raised.value.retry_after) == (429, 1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert level.queued == flow.queued_seats == 0
    level.finish(flow, 1)
    assert (level.executing, level._flows) == (0, {})


async def test_a_request_that_waits_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcano.apiserver.endpoints.flowcontrol.MAX_WAIT", 0.01)
    level = PriorityLevel("level", 1)
    flow = level.flow("alice")
    assert level.try_start(flow, 1)
    with pytest.raises(Rejected) as raised:
        await level.wait(flow, 1)
    assert raised.value.cause == "time-out"
    level.finish(flow, 1)
    assert (level.executing, level.queued, level._flows) == (0, 0, {})


def test_a_large_body_takes_more_seats_but_never_a_whole_level() -> None:
    level = PriorityLevel("level", 100)
    assert [level.width(size) for size in (0, BYTES_PER_SEAT, 3 << 20)] == [1, 2, 25]
    assert PriorityLevel("small", 1).width(3 << 20) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.booleans()), max_size=60))
def test_seats_are_never_exceeded_and_every_waiting_request_starts(
    steps: list[tuple[str, int, bool]],
) -> None:
    asyncio.run(_run_steps(steps))


async def _run_steps(steps: list[tuple[str, int, bool]]) -> None:
    level = PriorityLevel("level", 8)
    running: list[tuple[Flow, int]] = []
    waiting: list[asyncio.Task[None]] = []

    async def wait(flow: Flow, seats: int) -> None:
        await level.wait(flow, seats)
        running.append((flow, seats))

    for user, seats, finish in steps:
        if finish and running:
            level.finish(*running.pop(0))
        elif not finish:
            flow = level.flow(user)
            if level.try_start(flow, seats):
                running.append((flow, seats))
            else:
                waiting.append(asyncio.create_task(wait(flow, seats)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert level.executing == sum(seats for _, seats in running) <= level.seats
        assert level.queued == sum(not task.done() for task in waiting)
    for _ in range(len(steps) + 1):
        while running:
            level.finish(*running.pop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert all(task.done() for task in waiting)
    assert (level.executing, level.queued, level._flows) == (0, 0, {})


# End to end: two users and an administrator over connections of their own.


class SlowWebhook:
    """An admission plugin that answers for objects of alice only when it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def admit(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if attributes.user.name == "alice":
            await self.released.wait()
        return new


@pytest.fixture
async def flooded() -> AsyncIterator[tuple[TestServer, Server, SlowWebhook]]:
    webhook = SlowWebhook()
    masters = ("system:masters", AUTHENTICATED)
    api = TestServer(
        tokens={"alice": ALICE, "bob": BOB, "root": User("root", masters)},
        validating=admission_plugin()(webhook.admit),
    )
    await api.start()
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "users"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": AUTHENTICATED}],
    }
    await api.made("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    async with Server(api.api) as server:
        yield api, server, webhook


async def _create(server: Server, token: str, name: str) -> tuple[int, dict[str, str]]:
    """Creates a ConfigMap over a connection of its own; returns the status and the headers."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    head = (
        f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    response = await reader.read()
    writer.close()
    lines = response.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers


async def test_a_user_who_floods_the_server_gets_429_and_others_are_served(
    flooded: tuple[TestServer, Server, SlowWebhook],
) -> None:
    api, server, webhook = flooded
    seats = (LEVELS["global-default"] or 0) // 2
    requests = seats + MAX_QUEUED + 50
    flood = [asyncio.create_task(_create(server, "alice", f"a{i}")) for i in range(requests)]
    while sum(task.done() for task in flood) < 50:
        await asyncio.sleep(0.01)
    others = [await _create(server, token, f"{token}{i}") for i in range(20) for token in ("bob", "root")]
    assert Counter(status for status, _ in others) == {201: 40}
    metrics = (await api.get("/metrics", token=ADMIN_TOKEN)).body.decode()
    label = 'priority_level="global-default"'
    assert f"apiserver_flowcontrol_current_executing_seats{{{label}}} {seats}.0" in metrics
    assert f"apiserver_flowcontrol_current_inqueue_requests{{{label}}} {MAX_QUEUED}.0" in metrics
    webhook.released.set()
    answers = await asyncio.gather(*flood)
    assert Counter(status for status, _ in answers) == {201: seats + MAX_QUEUED, 429: 50}
    assert {headers.get("retry-after") for status, headers in answers if status == 429} == {"1"}
    rejected = f'rejected_requests_total{{flow_schema="global-default",{label},reason="queue-full"}} 50.0'
    metrics = (await api.get("/metrics", token=ADMIN_TOKEN)).body.decode()
    assert f"apiserver_flowcontrol_{rejected}" in metrics

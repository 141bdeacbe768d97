"""Priority and fairness: requests of one user wait, or get 429, before they delay those of others.

In the spirit of API Priority and Fairness of Kubernetes: a flow schema assigns a request to a priority level and, by
its user, to a flow. Each level has seats. A flow may take its share of them; further requests of the flow are queued,
and flows are served in turn. The cluster's administrators, nodes and components have levels of their own.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from volcano.apiserver.endpoints.request_info import RequestInfo
from volcano.apiserver.interfaces import User
from volcano.kube.api.errors import TooManyRequests
from volcano.kube.api.names import SYSTEM_NAMESPACE

RETRY_AFTER = 1
MAX_WAIT = 15.0  # seconds in a queue
MAX_QUEUED = 200  # requests of one flow
MAX_QUEUED_SEATS = 1000  # of one flow: waiting requests hold their bodies in memory
BYTES_PER_SEAT = 16 * 1024  # a request takes one seat, and one more for each such part of its body
MASTERS = "system:masters"
SYSTEM_ACCOUNTS = ("system:serviceaccounts:kube-system", f"system:serviceaccounts:{SYSTEM_NAMESPACE}")
COMPONENTS = ("system:kube-controller-manager", "system:kube-scheduler")
HEALTH = ("healthz", "livez", "readyz")
# Streams that last as long as their client wants take no seat; a watch takes one until it is open.
LONG_RUNNING = ("log", "exec", "attach", "portforward", "proxy")
MAX_CLASSIFIED = 10_000


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """Assigns the requests of some users to a priority level."""

    name: str
    level: str
    matches: Callable[[User], bool]
    lease_only: bool = False


def _in_group(*groups: str) -> Callable[[User], bool]:
    wanted = frozenset(groups)
    return lambda user: not wanted.isdisjoint(user.groups)


def _is_component(user: User) -> bool:
    return user.name in COMPONENTS or not set(SYSTEM_ACCOUNTS).isdisjoint(user.groups)


# Seats of each level; None means exempt.
LEVELS: dict[str, int | None] = {
    "exempt": None,
    "node-high": 40,
    "system": 60,
    "leader-election": 20,
    "workload-high": 100,
    "workload-low": 100,
    "global-default": 100,
    "catch-all": 10,
}
# In the order of precedence.
SCHEMAS = (
    FlowSchema("exempt", "exempt", _in_group(MASTERS)),
    FlowSchema("system-leader-election", "leader-election", _is_component, lease_only=True),
    FlowSchema("system-node-high", "node-high", _in_group("system:nodes"), lease_only=True),
    FlowSchema("system-nodes", "system", _in_group("system:nodes")),
    FlowSchema("kube-system-service-accounts", "workload-high", _is_component),
    FlowSchema("service-accounts", "workload-low", _in_group("system:serviceaccounts")),
    FlowSchema("global-default", "global-default", _in_group("system:authenticated")),
    FlowSchema("catch-all", "catch-all", lambda user: True),
)


@dataclass(slots=True, eq=False)
class _Waiting:
    seats: int
    started: "asyncio.Future[None]"


@dataclass(slots=True, eq=False)
class Flow:
    """Requests of one user in one priority level."""

    level: "PriorityLevel"
    user: str
    executing: int = 0  # seats
    queue: deque[_Waiting] = field(default_factory=deque)
    queued_seats: int = 0
    served: float = 0.0  # seats given to this flow, as virtual time


class PriorityLevel:
    """Seats that the flows of one level share."""

    def __init__(self, name: str, seats: int) -> None:
        self.name = name
        self.seats = seats
        self.executing = 0
        self.queued = 0  # requests
        self._flows: dict[str, Flow] = {}
        self._virtual_time = 0.0
        self._turns: list[tuple[float, int, Flow]] = []  # heap of flows with waiting requests
        self._order = count()

    def flow(self, user: str) -> Flow:
        found = self._flows.get(user)
        if found is None:
            found = self._flows[user] = Flow(self, user)
        return found

    def width(self, body_size: int) -> int:
        """Seats of a request: large bodies take more, up to a quarter of the level."""
        return min(1 + body_size // BYTES_PER_SEAT, max(self.seats // 4, 1))

    def try_start(self, flow: Flow, seats: int) -> bool:
        """Starts a request at once if no other of its flow waits and seats are free."""
        if flow.queue or not self._fits(flow, seats):
            return False
        self._start(flow, seats)
        return True

    async def wait(self, flow: Flow, seats: int) -> None:
        """Returns when the request may start; raises TooManyRequests if its queue is full or the wait too long."""
        if len(flow.queue) >= MAX_QUEUED or flow.queued_seats + seats > MAX_QUEUED_SEATS:
            raise Rejected("queue-full")
        waiting = _Waiting(seats, asyncio.get_running_loop().create_future())
        self._enqueue(flow, waiting)
        try:
            async with asyncio.timeout(MAX_WAIT):
                await waiting.started
        except TimeoutError:
            if not _is_started(waiting):
                raise Rejected("time-out") from None
        except asyncio.CancelledError:
            if _is_started(waiting):
                self.finish(flow, seats)
            raise
        finally:
            if waiting in flow.queue:
                flow.queue.remove(waiting)
                self._forget(flow, waiting)
                self._discard_idle(flow)

    def finish(self, flow: Flow, seats: int) -> None:
        """Frees the seats of a request and starts those that waited for them."""
        self.executing -= seats
        flow.executing -= seats
        if self._turns:
            self._dispatch()
        self._discard_idle(flow)

    def _fits(self, flow: Flow, seats: int) -> bool:
        """Whether seats are free, and the flow leaves a share for the other flows and for one more."""
        if self.executing + seats > self.seats:
            return False
        return flow.executing == 0 or flow.executing + seats <= self.seats // (len(self._flows) + 1)

    def _start(self, flow: Flow, seats: int) -> None:
        self.executing += seats
        flow.executing += seats
        flow.served = max(flow.served, self._virtual_time) + seats

    def _enqueue(self, flow: Flow, waiting: _Waiting) -> None:
        if not flow.queue:
            self._take_turn(flow)
        flow.queue.append(waiting)
        flow.queued_seats += waiting.seats
        self.queued += 1

    def _take_turn(self, flow: Flow) -> None:
        heappush(self._turns, (max(flow.served, self._virtual_time), next(self._order), flow))

    def _forget(self, flow: Flow, waiting: _Waiting) -> None:
        flow.queued_seats -= waiting.seats
        self.queued -= 1

    def _dispatch(self) -> None:
        """Starts waiting requests while seats are free; the flow that was given least so far is first."""
        passed: list[tuple[float, int, Flow]] = []  # flows that have their share already
        while self._turns and self.executing < self.seats:
            turn = heappop(self._turns)
            flow = turn[2]
            while flow.queue and flow.queue[0].started.done():  # cancelled
                self._forget(flow, flow.queue.popleft())
            if not flow.queue:
                continue
            if not self._fits(flow, flow.queue[0].seats):
                passed.append(turn)
                continue
            waiting = flow.queue.popleft()
            self._forget(flow, waiting)
            self._virtual_time = max(self._virtual_time, turn[0])
            self._start(flow, waiting.seats)
            waiting.started.set_result(None)
            if flow.queue:
                self._take_turn(flow)
        for turn in passed:
            heappush(self._turns, turn)

    def _discard_idle(self, flow: Flow) -> None:
        if not flow.executing and not flow.queue:
            self._flows.pop(flow.user, None)


def _is_started(waiting: _Waiting) -> bool:
    return waiting.started.done() and not waiting.started.cancelled()


class Rejected(TooManyRequests):
    """A request that would have to wait too long; `cause` is the label of the metric."""

    def __init__(self, cause: str) -> None:
        super().__init__("Too many requests, please try again later.", retry_after=RETRY_AFTER)
        self.cause = cause


class FlowControl(Collector):
    """Classifies requests and counts them."""

    def __init__(self) -> None:
        self._levels = {
            name: PriorityLevel(name, seats) for name, seats in LEVELS.items() if seats is not None
        }
        self._classified: dict[tuple[str, tuple[str, ...], bool], FlowSchema] = {}
        self._dispatched: dict[FlowSchema, int] = dict.fromkeys(SCHEMAS, 0)
        self._rejected: dict[tuple[FlowSchema, str], int] = {}

    def classify(self, user: User, info: RequestInfo) -> FlowSchema | None:
        """The flow schema of a request; None for an exempt one."""
        if MASTERS in user.groups or info.subresource in LONG_RUNNING:
            self._dispatched[SCHEMAS[0]] += 1
            return None
        if not info.resource and info.path.strip("/").partition("/")[0] in HEALTH:
            return None
        key = (user.name, user.groups, info.resource == "leases")
        schema = self._classified.get(key)
        if schema is None:
            schema = next(s for s in SCHEMAS if s.matches(user) and (key[2] or not s.lease_only))
            if len(self._classified) >= MAX_CLASSIFIED:
                self._classified.clear()
            self._classified[key] = schema
        return schema

    async def start(self, schema: FlowSchema, user: User, body_size: int) -> tuple[Flow, int]:
        """Waits until a request may start; returns its flow and seats, to be passed to `finish`."""
        level = self._levels[schema.level]
        flow, seats = level.flow(user.name), level.width(body_size)
        if not level.try_start(flow, seats):
            try:
                await level.wait(flow, seats)
            except Rejected as error:
                key = (schema, error.cause)
                self._rejected[key] = self._rejected.get(key, 0) + 1
                raise
        self._dispatched[schema] += 1
        return flow, seats

    def collect(self) -> Iterator[Metric]:
        """Metrics under the names of kube-apiserver."""
        labels = ("priority_level", "flow_schema")
        prefix = "apiserver_flowcontrol_"
        dispatched = CounterMetricFamily(
            f"{prefix}dispatched_requests_total", "Requests executed, by flow schema.", labels=labels
        )
        for schema, number in self._dispatched.items():
            dispatched.add_metric((schema.level, schema.name), number)
        yield dispatched
        rejected = CounterMetricFamily(
            f"{prefix}rejected_requests_total",
            "Requests rejected, by flow schema.",
            labels=(*labels, "reason"),
        )
        for (schema, reason), number in self._rejected.items():
            rejected.add_metric((schema.level, schema.name, reason), number)
        yield rejected
        gauges: dict[str, tuple[str, Callable[[PriorityLevel], int]]] = {
            "nominal_limit_seats": ("Seats of a priority level.", lambda level: level.seats),
            "current_executing_seats": ("Seats that are taken now.", lambda level: level.executing),
            "current_inqueue_requests": ("Requests that wait now.", lambda level: level.queued),
        }
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(prefix + name, text, labels=labels[:1])
            for level in self._levels.values():
                gauge.add_metric((level.name,), value(level))
            yield gauge

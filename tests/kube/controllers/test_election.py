"""Leader election: one candidate leads, the others wait for the lease to expire by their own clock."""

import asyncio
from typing import Any

import pytest

from tests.apiserver.registries import namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import Instant, VirtualClock, parse_timestamp
from volcano.kube.api.errors import ApiError, Forbidden, Unavailable
from volcano.kube.api.kinds import LEASE, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Create, Update
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.election import (
    Candidate,
    LeaderElectionConfig,
    LeadershipLost,
    run_leader_election,
)

KEY = Key("kube-system", "vc-scheduler")


def at(monotonic: float) -> Instant:
    return Instant(1_800_000_000.0 + monotonic, monotonic)


def lease(
    holder: str, renewed: float = 0, *, duration: int = 15, transitions: int = 3, version: str = "1"
) -> Manifest:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "acquireTime": at(0).micro_timestamp(),
        "renewTime": at(renewed).micro_timestamp(),
        "leaseTransitions": transitions,
    }
    metadata = {"namespace": KEY.namespace, "name": KEY.name, "resourceVersion": version}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def test_a_missing_lease_is_created() -> None:
    candidate = Candidate(KEY, "a")
    candidate.observe(None, at(0))
    operation = candidate.attempt(at(0))
    assert isinstance(operation, Create)
    assert operation.key == KEY
    assert operation.manifest["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2027-01-15T08:00:00.000000Z",
        "renewTime": "2027-01-15T08:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_a_foreign_lease_is_respected_until_it_has_not_changed_for_its_duration() -> None:
    candidate = Candidate(KEY, "a")
    candidate.observe(lease("b", renewed=0), at(100))
    assert candidate.attempt(at(114.9)) is None
    candidate.observe(lease("b", renewed=12, version="2"), at(112))  # b is alive
    candidate.observe(lease("b", renewed=12, version="2"), at(120))  # unchanged
    assert candidate.attempt(at(126.9)) is None
    operation = candidate.attempt(at(127))
    assert isinstance(operation, Update)
    assert operation.manifest["metadata"]["resourceVersion"] == "2"  # a second writer gets a conflict
    assert operation.manifest["spec"]["holderIdentity"] == "a"
    assert operation.manifest["spec"]["leaseTransitions"] == 4


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_a_holder_whose_clock_is_wrong_is_neither_robbed_nor_kept_for_ever(skew: float) -> None:
    candidate = Candidate(KEY, "a")
    candidate.observe(lease("b", renewed=skew), at(0))
    assert candidate.attempt(at(14)) is None
    assert candidate.attempt(at(15)) is not None


def test_a_released_lease_is_taken_at_once() -> None:
    candidate = Candidate(KEY, "a")
    candidate.observe(lease("", duration=1), at(0))
    assert candidate.attempt(at(0)) is not None


def test_the_leader_renews_without_changing_when_and_how_often_it_was_acquired() -> None:
    candidate = Candidate(KEY, "a")
    ours = lease("a")
    ours["spec"]["strategy"] = "OldestEmulationVersion"  # unknown fields are kept
    candidate.observe(ours, at(0))
    operation = candidate.attempt(at(5))
    assert isinstance(operation, Update)
    assert operation.manifest["spec"] == {**ours["spec"], "renewTime": at(5).micro_timestamp()}


def test_a_leader_that_cannot_renew_stops_before_others_start() -> None:
    candidate = Candidate(KEY, "a")
    candidate.on_written(lease("a"), at(0))
    assert not candidate.expired(at(9.9))
    assert candidate.expired(at(10))
    other = Candidate(KEY, "b")
    other.observe(lease("a"), at(0))
    assert other.attempt(at(10)) is None


def test_releasing_empties_the_holder_and_shortens_the_lease() -> None:
    candidate = Candidate(KEY, "a")
    assert candidate.release(at(0)) is None
    candidate.observe(lease("b"), at(0))
    assert candidate.release(at(0)) is None
    candidate.observe(lease("a"), at(0))
    operation = candidate.release(at(7))
    assert isinstance(operation, Update)
    spec = operation.manifest["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 3)
    assert spec["renewTime"] == spec["acquireTime"] == at(7).micro_timestamp()


@pytest.mark.parametrize(("lease", "renew", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_durations_that_allow_two_leaders_are_rejected(lease: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must exceed the renew deadline"):
        LeaderElectionConfig(lease, renew, retry)


class Flaky:
    """A client whose server can be cut off."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cut = False
        self.hangs = False
        self.blind = False

    def __getattr__(self, name: str) -> Any:
        if self.cut:
            raise Unavailable("cut off")
        if self.blind and name == "watch":
            raise Forbidden("leases may not be watched")
        return _never if self.hangs else getattr(self._client, name)


async def _never(*_: Any, **__: Any) -> None:
    await asyncio.Event().wait()


class Election:
    """Candidates for one lease on one server, under one clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.direct = DirectClient(registry(clock=self.clock))
        self.leading: list[str] = []
        self.clients: dict[str, Flaky] = {}

    async def run(
        self, name: str, *, config: LeaderElectionConfig = LeaderElectionConfig(), blind: bool = False
    ) -> asyncio.Task[None]:
        async def work() -> None:
            self.leading.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.leading.remove(name)

        self.clients[name] = Flaky(self.direct)
        self.clients[name].blind = blind
        running = run_leader_election(
            self.clients[name], Candidate(KEY, name, config), self.clock, work, chance=lambda: 0.5
        )
        task = asyncio.create_task(running)
        await self.advance(0)
        return task

    async def advance(self, seconds: float) -> None:
        for _ in range(max(int(seconds * 4), 1)):
            self.clock.advance(seconds and 0.25)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(self.leading) <= 1  # never two

    async def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = (await self.direct.get(LEASE, KEY))["spec"]
        return spec


@pytest.fixture
async def election() -> Election:
    made = Election()
    await made.direct.create(NAMESPACE, namespace(KEY.namespace))
    return made


async def test_one_leads_and_renews_while_the_other_waits(election: Election) -> None:
    first, second = await election.run("a"), await election.run("b")
    await election.advance(40)
    assert election.leading == ["a"]
    assert (await election.lease())["leaseTransitions"] == 0
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_a_leader_that_goes_hands_over_at_once(election: Election) -> None:
    first, second = await election.run("a"), await election.run("b")
    await election.advance(3)
    first.cancel()
    await election.advance(0)
    await election.advance(0)
    assert election.leading == ["b"]
    assert (await election.lease())["leaseTransitions"] == 1
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_a_leader_cut_off_stops_and_is_replaced_within_a_lease(election: Election) -> None:
    first, second = await election.run("a"), await election.run("b")
    await election.advance(3)
    election.clients["a"].cut = True
    await election.advance(13)
    assert first.done()
    with pytest.raises(LeadershipLost, match=r"kube-system/vc-scheduler could not be renewed in 10 s"):
        await first
    await election.advance(8)
    assert election.leading == ["b"]
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_who_waits_takes_over_the_moment_the_lease_runs_out(election: Election) -> None:
    first, second = await election.run("a"), await election.run("b")
    await election.advance(7.5)
    renewed = (await election.lease())["renewTime"]
    died_after = election.clock.now().wall - parse_timestamp(renewed)
    first_client = election.clients["a"]
    first_client.cut = True  # killed: it neither renews nor releases
    await election.advance(15 - died_after)
    await election.advance(0)
    assert (await election.lease())["holderIdentity"] == "b"
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_who_may_not_watch_leases_takes_over_all_the_same(election: Election) -> None:
    first, second = await election.run("a"), await election.run("b", blind=True)
    await election.advance(3)
    first.cancel()
    await election.advance(5)
    assert election.leading == ["b"]
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_an_attempt_to_renew_ends_in_time_however_long_the_server_takes(election: Election) -> None:
    config = LeaderElectionConfig(
        lease_duration=10, renew_deadline=9, retry_period=6
    )  # an attempt begins late, and the time until others start is short
    first = await election.run("a", config=config)
    await election.advance(5)
    election.clients["a"].hangs = True
    await election.advance(4.5)
    assert election.leading == []
    await election.advance(9)  # the release times out too
    assert first.done()
    with pytest.raises(LeadershipLost):
        await first


async def test_a_leader_who_is_robbed_stops(election: Election) -> None:
    first = await election.run("a")
    found = await election.direct.get(LEASE, KEY)
    found["spec"]["holderIdentity"] = "thief"
    await election.direct.update(LEASE, found)
    await election.advance(13)
    with pytest.raises(LeadershipLost):
        await first
    assert election.leading == []
    assert (await election.lease())["holderIdentity"] == "thief"


async def test_the_works_own_failure_is_passed_on_and_the_lease_handed_back(election: Election) -> None:
    async def work() -> None:
        raise ApiError("broken")

    with pytest.raises(ApiError, match="broken"):
        await run_leader_election(
            election.direct, Candidate(KEY, "a"), election.clock, work, chance=lambda: 0
        )
    assert (await election.lease())["holderIdentity"] == ""

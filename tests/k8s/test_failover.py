"""Two replicas of each program: when the leader ends at any moment, the other takes over."""

import itertools
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.k8s.balancer import Balancer
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.load import Load, job
from tests.k8s.plain import JOBS, LEASES, History, Object, until
from tests.k8s.programs import ELECTION, LEASE_SECONDS, RETRY_SECONDS, Programs, free_port, programs_on

pytestmark = pytest.mark.k8s

MIX = {"plain": 8, "abort": 1, "retry": 1, "leader": 2, "giant": 1}
FINISHED_WITHIN = 90.0
NODES = 5  # few enough that the load fills them, so that an over-allocation is seen
# Test machines are slow and shared: an operation of milliseconds may take this long.
SLACK = 1.5
LEASE = {"scheduler": "volcano", "controllers": "vc-controller-manager"}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def programs(
    whole_control_plane: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Programs]:
    ports = [free_port(), free_port()]
    service = Balancer(ports)
    with programs_on(whole_control_plane, tmp_path_factory) as running:
        running.prepare()
        for replica, port in zip((1, 2), ports, strict=True):
            running.start(f"controllers-{replica}", *ELECTION)
            running.start(f"scheduler-{replica}", *ELECTION)
            running.start_webhook(f"webhooks-{replica}", port=port, service_port=service.port)
        running.start_nodes(NODES)
        running.wait_ready(NODES)
        yield running
    service.stop()


@pytest.fixture
def history(programs: Programs) -> Iterator[History]:
    recorded = History(programs.api)
    yield recorded
    recorded.stop()


@pytest.fixture
def load(programs: Programs, history: History) -> Load:
    made = Load(programs.api, f"failover-{next(_numbers)}", MIX)
    until(made.under_way, 60.0, programs.logs)
    return made


def leader(programs: Programs, program: str) -> str:
    """The replica that holds the lease."""
    found: list[str] = []

    def known() -> bool:
        holder = programs.holder(LEASE[program])
        for name in (f"{program}-1", f"{program}-2"):
            if holder and f"identity={holder}" in (programs.directory / f"{name}.log").read_text():
                found.append(name)
        return bool(found)

    until(known, 30.0, programs.logs)
    return found[0]


def seconds_until_succeeded(programs: Programs, program: str, before: str) -> float:
    """Seconds until another replica holds the lease."""
    begun = time.monotonic()
    until(lambda: programs.holder(LEASE[program]) not in ("", before), 60.0, programs.logs)
    return time.monotonic() - begun


@pytest.mark.parametrize("program", ["scheduler", "controllers"])
def test_a_leader_that_is_killed_is_succeeded_within_a_lease(
    programs: Programs, load: Load, history: History, program: str
) -> None:
    name, before = leader(programs, program), programs.holder(LEASE[program])
    programs.restart_after = 2 * LEASE_SECONDS  # later than the other replica must have taken over
    programs.kill(name)
    assert seconds_until_succeeded(programs, program, before) < LEASE_SECONDS + SLACK
    load.finish(FINISHED_WITHIN, programs.logs)
    assert load.broken(history) == []


@pytest.mark.parametrize("program", ["scheduler", "controllers"])
def test_a_leader_that_is_terminated_releases_the_lease_at_once(
    programs: Programs, load: Load, history: History, program: str
) -> None:
    name, before = leader(programs, program), programs.holder(LEASE[program])
    programs.restart_after = 1.0
    process = programs.running[name].process
    process.terminate()
    assert seconds_until_succeeded(programs, program, before) < RETRY_SECONDS + SLACK
    load.finish(FINISHED_WITHIN, programs.logs)
    assert load.broken(history) == []
    assert process.wait(timeout=10) == 0


def test_admission_works_while_one_webhook_replica_is_down(programs: Programs) -> None:
    programs.api.create_persistently("/api/v1/namespaces", {"metadata": {"name": "webhooks"}})
    for replica in (1, 2):
        programs.kill(f"webhooks-{replica}")
        for number in range(4):
            created = programs.api.create(JOBS.format("webhooks"), job(f"job-{replica}-{number}", 1))
            assert created["spec"]["maxRetry"] == 3  # set by admission
        until(partial(_listens, programs, f"webhooks-{replica}"), 60.0, programs.logs)


def _listens(programs: Programs, name: str) -> bool:
    found = programs.running[name]
    log = (programs.directory / f"{name}.log").read_text()
    return found.process.poll() is None and log.count("listening") == found.starts


def test_leases_are_shared_with_client_go(programs: Programs) -> None:
    """kube-scheduler is a candidate for a lease that ours holds; each acquires it when the other has released it."""
    shared = (
        "--leader-elect-resource-name=shared",
        "--leader-elect-resource-namespace=volcano-system",
        *ELECTION,
    )
    programs.start("controllers-3", *shared)
    until(lambda: programs.holder("shared") != "", 30.0, programs.logs)
    ours = _spec(programs)
    theirs_flags = (
        f"--kubeconfig={programs.cluster.kubeconfig}",
        "--secure-port=0",
        "--leader-elect=true",
        *shared,
    )
    programs.cluster.spawn_as("kube-scheduler-2", "kube-scheduler", *theirs_flags)
    try:
        time.sleep(2 * LEASE_SECONDS)  # long enough for client-go to acquire an expired lease
        assert programs.holder("shared") == ours["holderIdentity"]
        programs.end("controllers-3")
        until(lambda: programs.holder("shared") not in ("", ours["holderIdentity"]), 30.0, programs.logs)
        theirs = _spec(programs)
        assert sorted(theirs) == sorted(ours)
        assert theirs["leaseTransitions"] == ours["leaseTransitions"] + 1
        programs.start("controllers-4", *shared)
        programs.cluster.processes["kube-scheduler-2"].terminate()
        until(lambda: programs.holder("shared") not in ("", theirs["holderIdentity"]), 30.0, programs.logs)
        assert _spec(programs)["leaseTransitions"] == theirs["leaseTransitions"] + 1
    finally:
        programs.cluster.kill("kube-scheduler-2")
        programs.end("controllers-4")


def _spec(programs: Programs) -> Object:
    spec: Object = programs.api.get(f"{LEASES.format('volcano-system')}/shared")["spec"]
    return spec

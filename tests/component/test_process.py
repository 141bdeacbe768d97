"""What our programs have in common: the client the flags ask for, and the one for the lease."""

import argparse
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from volcano.base.clock import VirtualClock
from volcano.cmd import controllers, scheduler, webhooks
from volcano.component import process
from volcano.kube.client.http import HttpClient


def flags(tmp_path: Path, *given: str) -> argparse.Namespace:
    path = tmp_path / "config"
    path.write_text("clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n")
    parser = argparse.ArgumentParser()
    process.add_client_flags(parser, qps=50, burst=100)
    process.add_election_flags(parser, name="volcano")
    return parser.parse_args(["--kubeconfig", str(path), "--master", "http://127.0.0.1:1", *given])


async def waits(client: HttpClient, times: int) -> float:
    """How long the last of so many requests at once waits for its turn, in seconds."""
    limiter = client._limiter
    return 0.0 if limiter is None else [limiter._bucket.reserve(0.0) for _ in range(times)][-1]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param((), 2.0, id="by default 50 a second after 100"),
        pytest.param(("--kube-api-qps", "10", "--kube-api-burst", "5"), 19.5, id="as the flags say"),
        pytest.param(("--kube-api-qps", "0"), 0.0, id="no limit"),
    ],
)
async def test_requests_are_limited_as_the_flags_say(
    tmp_path: Path, given: tuple[str, ...], seconds: float
) -> None:
    client = process.client_of(flags(tmp_path, *given), VirtualClock(), user_agent="test")
    assert await waits(client, 200) == seconds
    await client.close()


async def test_the_lease_is_renewed_without_waiting_in_line(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        client = process.election_client(flags(tmp_path), VirtualClock(), stack, user_agent="test")
        assert await waits(client, 200) == 0.0


async def test_terms_that_make_no_sense_end_the_program_with_a_reason(tmp_path: Path) -> None:
    arguments = flags(tmp_path, "--leader-elect-lease-duration", "1s")

    async def work() -> None:
        raise AssertionError("nobody may lead on such terms")

    client = process.client_of(arguments, VirtualClock(), user_agent="test")
    with pytest.raises(SystemExit, match="must exceed the renew deadline"):
        await process.lead_or_run(arguments, client, VirtualClock(), work)
    await client.close()


@pytest.mark.parametrize("main", [scheduler.main, controllers.main, webhooks.main])
def test_what_volcanos_deployments_pass_is_taken(
    main: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = ["--webhook-url=https://127.0.0.1"] if main is webhooks.main else []
    given = [*needed, "--logtostderr", "--enable-healthz=true", "--log-flush-frequency=5s", "-v=3", "2>&1"]
    with pytest.raises(SystemExit, match="kubeconfig: cannot read"):
        main([f"--kubeconfig={tmp_path / 'none'}", *given])
    with pytest.raises(SystemExit):
        main([*given, "leader-elect=false"])
    assert "unexpected argument 'leader-elect=false'; flags begin with --" in capsys.readouterr().err

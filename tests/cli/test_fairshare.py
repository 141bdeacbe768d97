"""`vcctl fairshare` and `vcctl priority`: numbers of the plugin's code, and where they are from."""

import asyncio
import json
from typing import Any

import pytest

from tests.cli.fair_shares import CONFIG, RecordingClient, configure
from tests.cli.test_screens import FixedSession, fill
from tests.cluster import SmallCluster
from volcano.cli.errors import UsageError
from volcano.cli.program import parser_of
from volcano.services.errors import NotFoundError


async def ran(command: list[str], *, config: str | None = CONFIG, recorded: bool = True) -> str:
    async with SmallCluster() as cluster:
        await fill(cluster)
        client = RecordingClient(cluster.registry)
        client.recorded, client.now = recorded, cluster.clock.now().wall
        if config is not None:
            await configure(client, config)
        arguments = parser_of("vcctl").parse_args(command)
        session = FixedSession(client, cluster.clock, None)
        assert await arguments.run(arguments, session) == 0
        return session.output.getvalue()


def shown(*command: str, **options: Any) -> str:
    return asyncio.run(ran(list(command), **options))


def data(*command: str, **options: Any) -> Any:
    return json.loads(shown(*command, "-o", "json", **options))


def test_shares_and_usage_of_queues_and_users_are_shown() -> None:
    found = data("fairshare")
    rows = {(row["queue"], row.get("user")): row for row in found["items"]}
    research, alice = rows["research", None], rows["research", "alice"]
    assert found["usageSource"] == "accounting"
    assert found["configured"] is True
    assert research["normalisedShare"] == pytest.approx(2 / 3)
    assert research["effectiveUsage"] == pytest.approx(400 / 450)
    assert research["factor"] == pytest.approx(2 ** -(400 / 450 / (2 / 3)))
    # alice has a share of 3, bob one of 1, and jobs without a user have one of 1 as well
    assert alice["normalisedShare"] == pytest.approx(3 / 5)
    assert alice["usageSeconds"] == pytest.approx(300 * 3600)
    assert rows["research", "bob"]["factor"] > alice["factor"] * 0.5


def test_one_queue_or_one_user_can_be_chosen() -> None:
    assert {row["queue"] for row in data("fairshare", "-q", "teaching")["items"]} == {"teaching"}
    assert [row["user"] for row in data("fairshare", "-u", "bob")["items"]] == ["bob"]


def test_waiting_jobs_are_in_the_order_of_queues_and_priorities() -> None:
    found = data("priority")
    assert [row["name"] for row in found["items"]] == ["carol-1", "bob-1", "alice-1"]
    bob = next(row for row in found["items"] if row["name"] == "bob-1")
    assert bob["priority"] == 1000  # the largest class
    assert bob["size"] == pytest.approx(100 * 16 / 64)
    assert bob["total"] == pytest.approx(bob["priority"] + bob["age"] + bob["size"] + bob["fairshare"])
    assert found["weights"] == {"priority": 1000, "age": 10, "size": 100, "fairshare": 1000}


def test_jobs_of_one_queue_user_or_namespace_can_be_chosen() -> None:
    assert [row["name"] for row in data("priority", "-u", "carol")["items"]] == ["carol-1"]
    assert [row["name"] for row in data("priority", "-q", "teaching")["items"]] == ["carol-1"]
    assert data("priority", "-n", "other")["items"] == []
    assert "no job waits" in shown("priority", "-n", "other")


def test_without_accounting_running_pods_are_counted_and_a_warning_says_so() -> None:
    text = shown("fairshare", recorded=False)
    assert "recorded usage is not available, only pods that run now are counted" in text
    assert "half-life 24 hours, from running pods" in text


def test_a_scheduler_without_the_plugin_is_reported() -> None:
    text = shown("fairshare", config="actions: allocate\ntiers:\n- plugins: [{name: gang}]\n", recorded=False)
    assert "the scheduler does not use the plugin fairshare: add it to ConfigMap volcano-system/" in text


def test_defaults_are_used_if_the_configuration_cannot_be_read() -> None:
    assert "configuration is not known, defaults are shown" in shown("fairshare", config=None, recorded=False)
    assert "configuration is invalid" in shown("fairshare", config="tiers: 3", recorded=False)


def test_wrong_input_is_explained() -> None:
    with pytest.raises(NotFoundError, match="queue 'reserch' does not exist; did you mean 'research'"):
        shown("fairshare", "-q", "reserch")
    with pytest.raises(UsageError, match="is none of json, yaml"):
        shown("priority", "-o", "xml")

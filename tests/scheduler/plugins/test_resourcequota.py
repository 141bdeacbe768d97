"""resourcequota: jobs beyond a namespace's quota are not admitted."""

from typing import Any

from tests.builders import metadata, node, podgroup, resources
from tests.scenario import Result, schedule
from volcano.kube.api.manifest import Manifest
from volcano.model.job import Job
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.plugin import Plugin


class RejectFirst(Plugin):
    """A third-party plugin that rejects the job `first`."""

    def job_enqueueable(self, job: Job) -> Vote:
        return Vote.REJECT if job.name == "first" else Vote.PERMIT


REFUSING = "tests.scheduler.plugins.test_resourcequota:RejectFirst"


def quota(hard: dict[str, str], used: dict[str, str] | None = None, namespace: str = "default") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("quota", namespace),
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used or {}},
    }


def waiting(name: str, age: float = 0, **amounts: Any) -> Manifest:
    return podgroup(name, phase="Pending", min_resources=resources(**amounts) or None, age=age)


def enqueue(groups: list[Manifest], *quotas: Manifest, plugins: Any = ("resourcequota",)) -> Result:
    return schedule(
        nodes=[node("n1", cpu=100)], podgroups=groups, others=quotas, plugins=plugins, actions=["enqueue"]
    )


def test_a_job_beyond_the_quota_is_not_admitted() -> None:
    hard = quota({"cpu": "2"})
    result = enqueue([waiting("big", cpu=3)], hard)
    assert result.phase("big") == "Pending"
    said = "resource quota insufficient, requested: cpu=3, used: cpu=0, limited: cpu=2"
    assert said in result.events("big")
    assert enqueue([waiting("big", cpu=3)]).phase("big") == "Inqueue", "no quota, no limit"


def test_what_is_used_and_what_this_cycle_admits_count() -> None:
    hard = quota({"cpu": "3"}, {"cpu": "1"})
    result = enqueue([waiting("a", 2, cpu=1), waiting("b", 1, cpu=2)], hard)
    assert (result.phase("a"), result.phase("b")) == ("Inqueue", "Pending")


def test_only_names_the_quota_limits_count() -> None:
    assert (
        enqueue([waiting("a", cpu=1, memory="99Gi")], quota({"cpu": "2", "pods": "0"})).phase("a")
        == "Inqueue"
    )


def test_other_namespaces_do_not_matter() -> None:
    assert enqueue([waiting("a", cpu=9)], quota({"cpu": "1"}, namespace="other")).phase("a") == "Inqueue"


def test_a_job_that_another_plugin_rejects_uses_no_quota() -> None:
    groups = [waiting("first", 2, cpu=1), waiting("second", 1, cpu=1)]
    result = enqueue(groups, quota({"cpu": "1"}), plugins=["resourcequota", REFUSING])
    assert (result.phase("first"), result.phase("second")) == ("Pending", "Inqueue")

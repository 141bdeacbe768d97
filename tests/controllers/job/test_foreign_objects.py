"""Objects of other owners under the names that a job needs: the job says so, and waits."""

import pytest

from tests.controllers.job.world import job, running, submit, world
from volcano.kube.api.kinds import CONFIG_MAP, NETWORK_POLICY, POD, SECRET, SERVICE, Kind
from volcano.kube.api.manifest import Key, Manifest

NAMES = [
    pytest.param(SERVICE, "j", "svc", id="Service"),
    pytest.param(CONFIG_MAP, "j-svc", "svc", id="ConfigMap"),
    pytest.param(NETWORK_POLICY, "j", "svc", id="NetworkPolicy"),
    pytest.param(SECRET, "j-ssh", "ssh", id="Secret"),
]
LABELS = [pytest.param({}, id="plain"), pytest.param({"volcano.sh/job-name": "j"}, id="with the job's label")]


@pytest.mark.parametrize(("kind", "name", "plugin"), NAMES)
@pytest.mark.parametrize("labels", LABELS)
def test_a_job_waits_until_an_object_of_another_owner_is_gone(
    kind: Kind, name: str, plugin: str, labels: dict[str, str]
) -> None:
    cluster = world()
    cluster.put(kind, {"metadata": {"name": name, "labels": labels}, "data": {"theirs": "x"}})
    submit(cluster, job(plugins={plugin: []}))
    cluster.settle()
    state = cluster.job("j")["status"]["state"]
    assert (state["phase"], state["reason"], cluster.pods()) == ("Pending", "PluginError", [])
    assert (
        f"plugin {plugin} needs the {kind.kind} {name}, which exists and is not of this job"
        in state["message"]
    )
    assert len(cluster.events("PluginError")) == 1
    assert cluster.get(kind, Key("default", name))["data"] == {"theirs": "x"}
    cluster.remove(kind, Key("default", name))
    cluster.advance(15)
    cluster.settle()
    assert (cluster.phase("j"), len(cluster.pods())) == ("Running", 2)
    assert "reason" not in cluster.job("j")["status"]["state"]


def test_a_running_job_keeps_its_own_objects() -> None:
    cluster = running(job(plugins={"svc": [], "ssh": []}))
    assert cluster.events("PluginError") == []


def test_a_pod_of_another_owner_under_the_name_of_one_is_reported() -> None:
    cluster = world()
    pod: Manifest = {"metadata": {"name": "j-main-0", "labels": {"volcano.sh/job-name": "j"}}, "spec": {}}
    cluster.put(POD, pod)
    submit(cluster, job())
    cluster.settle()
    (event,) = cluster.events("FailedCreate")
    assert "pod j-main-0 exists and is not of this job" in event["message"]
    cluster.evict("j-main-0")
    cluster.settle()
    assert (cluster.phase("j"), cluster.pod_names()) == ("Running", ["j-main-0", "j-main-1"])

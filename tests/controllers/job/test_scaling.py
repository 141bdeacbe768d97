"""Scaling a job up and down."""

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import change, job, policy, running, task
from volcano.kube.api.kinds import CONFIG_MAP, SECRET


def scaled(replicas: int) -> dict[str, object]:
    tasks = [task(replicas=replicas, minAvailable=replicas)]
    return {"spec": {"minAvailable": replicas, "tasks": tasks}}


def hosts(cluster: FakeCluster) -> list[str]:
    config = cluster.find(CONFIG_MAP, "j-svc")
    assert config is not None
    return [host for host in config["data"]["VC_MAIN_HOSTS"].split(",") if host]


def test_a_job_scaled_up_gets_more_pods_and_a_longer_list_of_hosts() -> None:
    cluster = running(job(plugins={"svc": []}))
    change(cluster, scaled(4))
    cluster.settle()
    assert cluster.pod_names() == [f"j-main-{i}" for i in range(4)]
    assert hosts(cluster) == [f"j-main-{i}.j" for i in range(4)]
    assert (cluster.phase("j"), cluster.job("j")["status"]["running"]) == ("Running", 4)
    group = cluster.group("j")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (4, {"main": 4})
    assert group["spec"]["minResources"]["pods"] == "4"


def test_a_job_scaled_down_loses_its_last_pods() -> None:
    cluster = running(job(plugins={"svc": []}))
    change(cluster, scaled(1))
    cluster.advance(1)
    assert cluster.job("j")["status"]["terminating"] == 1
    cluster.settle()
    assert cluster.pod_names() == ["j-main-0"]
    assert hosts(cluster) == ["j-main-0.j"]
    assert (cluster.phase("j"), cluster.job("j")["status"]["minAvailable"]) == ("Running", 1)


def test_a_job_scaled_to_nothing_keeps_its_phase_and_can_come_back() -> None:
    cluster = running(job(plugins={"svc": []}))
    change(cluster, scaled(0))
    cluster.settle()
    assert (cluster.phase("j"), cluster.pods(), hosts(cluster)) == ("Running", [], [])
    change(cluster, scaled(2))
    cluster.settle()
    assert cluster.pod_names() == ["j-main-0", "j-main-1"]
    assert hosts(cluster) == ["j-main-0.j", "j-main-1.j"]
    assert cluster.phase("j") == "Running"


def test_scaling_down_is_not_taken_for_an_eviction() -> None:
    cluster = running(job(tasks=[task(replicas=3)], policies=[policy("PodEvicted", "RestartJob")]))
    change(cluster, {"spec": {"minAvailable": 1, "tasks": [task(replicas=1)]}})
    cluster.settle()
    assert (cluster.phase("j"), cluster.pod_names()) == ("Running", ["j-main-0"])
    assert "retryCount" not in cluster.job("j")["status"]


def test_scaling_down_may_complete_a_task() -> None:
    """Kept from the reference: a task is complete when as many pods succeeded as it has replicas now."""
    policies = [policy("TaskCompleted", "CompleteJob")]
    cluster = running(job(tasks=[task("a", 2), task("b", 1)], policies=policies))
    cluster.finish("j-a-0")
    assert cluster.phase("j") == "Running"
    change(cluster, {"spec": {"minAvailable": 1, "tasks": [task("a", 1), task("b", 1)]}})
    cluster.settle()
    assert cluster.phase("j") == "Completed"


def test_hosts_of_a_job_scaled_up_are_known_to_ssh_and_its_keys_stay() -> None:
    cluster = running(job(plugins={"ssh": []}))
    before = cluster.find(SECRET, "j-ssh")
    change(cluster, scaled(3))
    after = cluster.find(SECRET, "j-ssh")
    assert before is not None
    assert after is not None
    assert before["data"]["config"] != after["data"]["config"]
    assert before["data"]["id_rsa"] == after["data"]["id_rsa"]


def test_a_pod_in_the_middle_that_is_lost_is_made_again() -> None:
    cluster = running(job(tasks=[task(replicas=4)]))
    cluster.evict("j-main-1")
    assert cluster.pod_names() == [f"j-main-{i}" for i in range(4)]

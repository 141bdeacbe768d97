"""The Python SDK on a real API server, with simulated pods."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.k8s.plain import until
from tests.k8s.programs import Programs
from volcano.sdk import ApiError, Cluster, Job, NotFinished, Queue, SdkError, Task, run

pytestmark = pytest.mark.k8s

LIMIT = 90.0
SMALL: dict[str, Any] = {"cpus": "50m", "memory": "32Mi"}


@pytest.fixture
def cluster(installed: Programs) -> Iterator[Cluster]:
    with Cluster(kubeconfig=str(installed.cluster.kubeconfig)) as connected:
        yield connected


def test_queues_are_created_closed_and_deleted(cluster: Cluster) -> None:
    assert cluster.queues.create(Queue.new("sdk", weight=3)).weight == 3
    assert "sdk" in [queue.name for queue in cluster.queues.list()]
    cluster.queues.close("sdk")
    assert cluster.queues.get("sdk").state == "Closed"
    cluster.queues.delete("sdk")
    with pytest.raises(SdkError, match="queue 'sdk' not found"):
        cluster.queues.get("sdk")


def test_a_job_runs_as_a_gang_to_its_end(cluster: Cluster, installed: Programs) -> None:
    job = cluster.jobs.create(Job.new("sdk-pair", [Task("worker", 2, ["true"], **SMALL)]))
    until(lambda: cluster.jobs.get("sdk-pair").phase == "Completed", LIMIT, installed.logs)
    groups = {
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in cluster.pods("sdk-pair")
    }
    assert groups == {f"sdk-pair-{job.uid}"}
    cluster.jobs.delete(job.name)


def test_the_webhook_of_the_cluster_rejects_an_invalid_job(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="nowhere"):
        cluster.jobs.create(Job.new("sdk-invalid", [Task("worker", 1, ["true"], **SMALL)], queue="nowhere"))


def test_a_command_is_submitted_and_waited_for(cluster: Cluster) -> None:
    submitted = run(["true"], workers=2, cluster=cluster, name="sdk-command", **SMALL)
    submitted.wait(LIMIT)
    assert submitted.phase == "Completed"
    submitted.delete()


def test_a_function_is_sent_in_secrets_of_its_job(cluster: Cluster, installed: Programs) -> None:
    submitted = run(lambda: 42, workers=2, cluster=cluster, name="sdk-function", **SMALL)
    secrets = installed.api.items("/api/v1/namespaces/default/secrets")
    (sent,) = [each for each in secrets if each["metadata"]["name"].startswith("sdk-function")]
    assert sent["metadata"]["ownerReferences"][0]["name"] == "sdk-function"
    assert all(base64.b64decode(part) for part in sent["data"].values())
    submitted.wait(LIMIT)
    submitted.delete()


def test_waiting_for_a_job_without_room_ends_with_an_error(cluster: Cluster) -> None:
    large = run(["true"], cpus="999", memory="32Mi", cluster=cluster, name="sdk-large")
    with pytest.raises(NotFinished, match="sdk-large"):
        large.wait(1.0)
    large.delete()

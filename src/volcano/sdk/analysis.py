"""`explain` and `plan`: why jobs wait, and what would happen to others, as `vcctl` computes it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from volcano.kube.api.manifest import Key, Manifest
from volcano.sdk.cluster import Cluster
from volcano.sdk.objects import Job

if TYPE_CHECKING:
    from volcano.analysis.explain.cluster import ClusterExplanation
    from volcano.analysis.explain.explanations import JobExplanation, PodExplanation
    from volcano.analysis.explain.node import NodeExplanation
    from volcano.analysis.explain.queue import QueueExplanation
    from volcano.services.plan import Plan

    Explanation = JobExplanation | PodExplanation | QueueExplanation | NodeExplanation | ClusterExplanation


@overload
def explain(
    job: str, *, namespace: str = ..., details: Sequence[str] = ..., cluster: Cluster | None = ...
) -> "JobExplanation": ...
@overload
def explain(
    *, pod: str, namespace: str = ..., details: Sequence[str] = ..., cluster: Cluster | None = ...
) -> "PodExplanation": ...
@overload
def explain(*, queue: str, cluster: Cluster | None = ...) -> "QueueExplanation": ...
@overload
def explain(*, node: str, cluster: Cluster | None = ...) -> "NodeExplanation": ...
@overload
def explain(*, cluster: Cluster | None = ...) -> "ClusterExplanation": ...
def explain(
    job: str = "",
    *,
    pod: str = "",
    queue: str = "",
    node: str = "",
    namespace: str = "",
    details: Sequence[str] = (),
    cluster: Cluster | None = None,
) -> "Explanation":
    """Explains a job, or another subject that is named; without one, the cluster.

    >>> explain(queue="default").state
    'Open'
    """
    from volcano.services.explain import cluster as subjects
    from volcano.services.explain.jobs import explain_job
    from volcano.services.explain.pods import explain_pod

    cluster = cluster or Cluster()
    client, clock = cluster.connection.client, cluster.connection.clock
    key = Key(namespace or cluster.namespace, job or pod)
    if job:
        return cluster.wait(explain_job(client, clock, key, details=details))
    if pod:
        return cluster.wait(explain_pod(client, clock, key, details=details))
    if queue:
        return cluster.wait(subjects.explain_queue(client, clock, queue))
    if node:
        return cluster.wait(subjects.explain_node(client, clock, node))
    return cluster.wait(subjects.explain_cluster(client, clock))


def plan(
    *jobs: Job | Manifest, namespace: str = "", allow_preempt: bool = False, cluster: Cluster | None = None
) -> "Plan":
    """What would happen to jobs if they were created together now. Creates nothing.

    >>> from volcano.sdk import Job, Task
    >>> plan(Job.new("later", [Task("worker", 1, ["true"], cpus="50m", memory="32Mi")])).starts
    True
    """
    from volcano.services.plan import plan_new

    cluster = cluster or Cluster()
    manifests = [job.manifest if isinstance(job, Job) else job for job in jobs]
    connection, home = cluster.connection, namespace or cluster.namespace
    return cluster.wait(
        plan_new(connection.client, connection.clock, manifests, namespace=home, allow_preempt=allow_preempt)
    )

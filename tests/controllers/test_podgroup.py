"""Pods that ask for our scheduler get a PodGroup: alone, or with the siblings of their owner."""

from typing import Any

from tests.cluster import SmallCluster
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.podgroup import PodGroupController
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import DEPLOYMENT, EVENT, POD, POD_GROUP, REPLICA_SET
from volcano.kube.api.manifest import Manifest, annotations_of, controller_of, uid_of

GROUP = "scheduling.k8s.io/group-name"


def pod(**fields: Any) -> Manifest:
    resources = {"requests": {"cpu": "500m"}}
    return {
        "schedulerName": "volcano",
        "containers": [{"name": "c", "image": "i", "resources": resources}],
        **fields,
    }


async def test_a_bare_pod_gets_a_group_of_its_own() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", spec=pod())
        name = f"podgroup-{uid_of(made)}"
        assert annotations_of(await cluster.get(POD, "p"))[GROUP] == name
        group = await cluster.get(POD_GROUP, name)
        assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (1, "500m")
        owner = controller_of(group)
        assert owner is not None
        assert owner["uid"] == uid_of(made)
        await cluster.delete(POD, "p")
        assert await cluster.names(POD_GROUP) == []


async def test_other_schedulers_pods_and_pods_with_a_group_are_left_alone() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        await cluster.create(POD, "other", spec=pod(schedulerName="default-scheduler"))
        await cluster.create(POD, "grouped", metadata={"annotations": {GROUP: "mine"}}, spec=pod())
        assert await cluster.names(POD_GROUP) == []
        assert annotations_of(await cluster.get(POD, "grouped"))[GROUP] == "mine"


async def test_annotations_decide_queue_minimum_and_topology() -> None:
    notes = {
        "scheduling.volcano.sh/queue-name": "research",
        "volcano.sh/preemptable": "true",
        "volcano.sh/network-topology-mode": "SOFT",
        "volcano.sh/network-topology-highest-tier": "2",
    }
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", metadata={"annotations": notes}, spec=pod())
        group = await cluster.get(POD_GROUP, f"podgroup-{uid_of(made)}")
        assert group["spec"]["queue"] == "research"
        assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}
        assert group["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"


async def test_the_pods_of_a_replica_set_share_a_group_that_its_annotation_sizes() -> None:
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod()},
    }
    notes = {"scheduling.volcano.sh/group-min-member": "3"}
    async with SmallCluster(PodGroupController(), ReplicaSetController()) as cluster:
        made = await cluster.create(REPLICA_SET, "w", metadata={"annotations": notes}, spec=spec)
        name = f"podgroup-{uid_of(made)}"
        assert await cluster.names(POD_GROUP) == [name]
        group = await cluster.get(POD_GROUP, name)
        assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (3, "1500m")
        assert {annotations_of(p)[GROUP] for p in await cluster.all(POD)} == {name}
        await cluster.patch(POD_GROUP, name, {"status": {"phase": "Running"}})
        changed = {"metadata": {"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}}
        await cluster.patch(REPLICA_SET, "w", changed)
        group = await cluster.get(POD_GROUP, name)
        assert (group["spec"]["minMember"], group["status"]["phase"]) == (2, "Running")
        await cluster.patch(REPLICA_SET, "w", {"spec": {"replicas": 0}})
        await cluster.pass_time(31, step=31)
        assert await cluster.names(POD_GROUP) == []


async def test_what_a_newer_template_no_longer_asks_for_leaves_the_group() -> None:
    """What stayed behind would be found wrong, and written to no effect, again and again."""

    def template(**requests: str) -> Manifest:
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        return {"metadata": {"labels": {"app": "w"}}, "spec": pod(containers=[container])}

    selector = {"matchLabels": {"app": "w"}}
    spec = {"replicas": 1, "selector": selector, "template": template(cpu="1", memory="1Gi")}
    async with SmallCluster(PodGroupController(), ReplicaSetController()) as cluster:
        await cluster.create(REPLICA_SET, "w", spec=spec)
        await cluster.patch(REPLICA_SET, "w", {"spec": {"template": template(cpu="1")}})
        await cluster.delete(POD, (await cluster.names(POD))[0], grace=0)
        (group,) = await cluster.all(POD_GROUP)
        resources = {"count/pods": "1", "cpu": "1", "pods": "1", "requests.cpu": "1"}
        assert group["spec"]["minResources"] == resources


async def test_a_group_deleted_by_mistake_comes_back() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", spec=pod())
        await cluster.delete(POD_GROUP, f"podgroup-{uid_of(made)}")
        assert await cluster.names(POD_GROUP) == [f"podgroup-{uid_of(made)}"]


async def test_a_pod_created_again_under_its_name_gets_a_group_of_its_own_at_once() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        before = await cluster.create(POD, "p", spec=pod())
        await cluster.delete(POD, "p", grace=0)
        after = await cluster.create(POD, "p", spec=pod())
        assert uid_of(before) != uid_of(after)
        assert await cluster.names(POD_GROUP) == [f"podgroup-{uid_of(after)}"]


async def test_finished_pods_are_given_no_group() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(POD, "p", spec=pod())
        await cluster.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "status")
        cluster.start(PodGroupController())
        await cluster.rest()
        assert await cluster.names(POD_GROUP) == []
        assert GROUP not in annotations_of(await cluster.get(POD, "p"))


async def test_a_users_change_of_a_lone_pods_group_stays() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", spec=pod())
        name = f"podgroup-{uid_of(made)}"
        await cluster.patch(POD_GROUP, name, {"spec": {"queue": "other", "minMember": 2}})
        await cluster.patch(POD, "p", {"metadata": {"labels": {"touched": "yes"}}})
        group = await cluster.get(POD_GROUP, name)
        assert (group["spec"]["queue"], group["spec"]["minMember"]) == ("other", 2)


async def test_a_pod_whose_group_is_refused_says_why_and_gets_it_when_it_is_not() -> None:
    shut = True

    async def admit(
        attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if shut and attributes.kind == POD_GROUP:
            raise Forbidden("can only submit PodGroup to queue with state `Open`; 'research' is Closed")
        return new

    async with SmallCluster(PodGroupController(), admit=admit) as cluster:
        made = await cluster.create(POD, "p", spec=pod())
        await cluster.pass_time(5)
        (event,) = await cluster.all(EVENT)
        assert (event["type"], event["reason"]) == ("Warning", "FailedCreate")
        assert event["involvedObject"]["name"] == "p"
        assert event["message"].endswith("'research' is Closed")
        shut = False
        await cluster.pass_time(31)
        assert await cluster.names(POD_GROUP) == [f"podgroup-{uid_of(made)}"]


async def test_a_group_has_the_user_of_its_pod() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(
            POD, "p", metadata={"annotations": {"volcano.sh/user": "jane"}}, spec=pod()
        )
        group = await cluster.get(POD_GROUP, f"podgroup-{uid_of(made)}")
        assert annotations_of(group)["volcano.sh/user"] == "jane"


async def minimums(cluster: SmallCluster) -> list[int]:
    return sorted(group["spec"]["minMember"] for group in await cluster.all(POD_GROUP))


async def set_ready(cluster: SmallCluster) -> None:
    """Every pod runs and is ready."""
    for known in await cluster.all(POD):
        if (known.get("status") or {}).get("phase") != "Running":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": cluster.clock.now().timestamp()}
            status = {"phase": "Running", "conditions": [ready]}
            await cluster.patch(POD, known["metadata"]["name"], {"status": status}, "status")


async def test_the_gang_of_a_rolling_update_grows_with_its_replica_set() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod()}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "w"}},
        "strategy": rolling,
        "template": template,
    }
    notes = {"scheduling.volcano.sh/group-min-member": "2"}
    workloads = (ReplicaSetController(), DeploymentController())
    async with SmallCluster(PodGroupController(), *workloads) as cluster:
        await cluster.create(DEPLOYMENT, "w", metadata={"annotations": notes}, spec=spec)
        assert await minimums(cluster) == [2]
        await set_ready(cluster)
        await cluster.pass_time(2)
        image = {"containers": [{"name": "c", "image": "new"}], "schedulerName": "volcano"}
        changed = {"spec": {"template": {"metadata": {"labels": {"app": "w"}}, "spec": image}}}
        await cluster.patch(DEPLOYMENT, "w", changed)
        assert await minimums(cluster) == [1, 2]
        for _ in range(6):
            await set_ready(cluster)
            await cluster.pass_time(2)
        sizes = {s["spec"]["replicas"] for s in await cluster.all(REPLICA_SET)}
        assert sizes == {0, 2}
        assert await minimums(cluster) == [2]


async def test_a_gang_is_never_larger_than_its_replica_set() -> None:
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod()},
    }
    notes = {"scheduling.volcano.sh/group-min-member": "3"}
    async with SmallCluster(PodGroupController(), ReplicaSetController()) as cluster:
        await cluster.create(REPLICA_SET, "w", metadata={"annotations": notes}, spec=spec)
        assert await minimums(cluster) == [2]
        await cluster.patch(REPLICA_SET, "w", {"spec": {"replicas": 5}})
        assert await minimums(cluster) == [3]

"""JobFlows create their jobs in the order of their dependencies and sum up how they fare."""

from tests.cluster import SmallCluster
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.kube.api.kinds import EVENT, JOB, JOB_FLOW, JOB_TEMPLATE
from volcano.kube.api.manifest import Manifest

SPEC: Manifest = {
    "tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]
}


async def templates(cluster: SmallCluster, *names: str) -> None:
    for name in names:
        await cluster.create(JOB_TEMPLATE, name, spec=SPEC)


async def set_phase(cluster: SmallCluster, job: str, phase: str) -> None:
    await cluster.patch(JOB, job, {"status": {"state": {"phase": phase}}}, "status")


async def phase(cluster: SmallCluster, flow: str = "f") -> str:
    found: str = (await cluster.get(JOB_FLOW, flow))["status"]["state"]["phase"]
    return found


FLOWS = [
    {"name": "a"},
    {"name": "b", "dependsOn": {"targets": ["a"]}},
    {"name": "c", "dependsOn": {"targets": ["a", "b"]}},
]


async def test_a_flow_creates_each_job_when_those_it_depends_on_are_completed() -> None:
    async with SmallCluster(JobFlowController(), JobTemplateController()) as cluster:
        await templates(cluster, "a", "b", "c")
        await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS})
        assert await cluster.names(JOB) == ["f-a"]
        assert await phase(cluster) == "Pending"
        await set_phase(cluster, "f-a", "Running")
        assert await phase(cluster) == "Running"
        await set_phase(cluster, "f-a", "Completed")
        assert await cluster.names(JOB) == ["f-a", "f-b"]
        await set_phase(cluster, "f-b", "Completed")
        await set_phase(cluster, "f-c", "Completed")
        assert await phase(cluster) == "Succeed"
        status = (await cluster.get(JOB_FLOW, "f"))["status"]
        assert status["completedJobs"] == ["f-a", "f-b", "f-c"]
        assert [entry["state"] for entry in status["jobStatusList"]] == ["Completed"] * 3
        histories = status["jobStatusList"][0]["runningHistories"]
        assert [entry["state"] for entry in histories] == ["Running", "Completed"]
        template = await cluster.get(JOB_TEMPLATE, "b")
        assert template["status"]["jobDependsOnList"] == ["f-b"]


async def test_a_failed_job_fails_the_flow_and_nothing_more_is_started() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a", "b", "c")
        await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS})
        await set_phase(cluster, "f-a", "Running")
        await set_phase(cluster, "f-a", "Failed")
        assert await phase(cluster) == "Failed"
        assert await cluster.names(JOB) == ["f-a"]


async def test_jobs_are_deleted_after_success_where_the_flow_says_so() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS[:1], "jobRetainPolicy": "delete"})
        await set_phase(cluster, "f-a", "Completed")
        assert await cluster.names(JOB) == []
        assert await phase(cluster) == "Succeed"


async def test_a_missing_template_is_said_and_waited_for() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS[:1]})
        assert await cluster.names(JOB) == []
        assert [event["reason"] for event in await cluster.all(EVENT)] == ["TemplateNotFound"]
        await templates(cluster, "a")
        assert await cluster.names(JOB) == ["f-a"]


async def test_a_flow_may_patch_its_template() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        flows = [{"name": "a", "patch": {"jobSpec": {"queue": "urgent", "tasks": SPEC["tasks"]}}}]
        await cluster.create(JOB_FLOW, "f", spec={"flows": flows})
        assert (await cluster.get(JOB, "f-a"))["spec"]["queue"] == "urgent"


async def test_a_patch_merges_tasks_by_name_and_leaves_the_rest_of_the_template() -> None:
    sidecar = {"name": "s", "image": "s"}
    tasks = [
        {"name": "ps", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "ps"}]}}},
        {
            "name": "worker",
            "replicas": 2,
            "policies": [{"event": "PodFailed", "action": "RestartTask"}],
            "template": {"spec": {"containers": [{"name": "c", "image": "i", "args": ["x"]}, sidecar]}},
        },
    ]
    spec = {"queue": "urgent", "maxRetry": 7, "plugins": {"env": [], "svc": ["--x"]}, "tasks": tasks}
    container = {"name": "c", "image": "new"}
    change = {
        "name": "worker",
        "replicas": 5,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
    }
    more = {"name": "more", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    patch = {"minAvailable": 6, "plugins": {"svc": []}, "tasks": [change, more]}
    async with SmallCluster(JobFlowController()) as cluster:
        await cluster.create(JOB_TEMPLATE, "a", spec=spec)
        await cluster.create(JOB_FLOW, "f", spec={"flows": [{"name": "a", "patch": {"jobSpec": patch}}]})
        made = (await cluster.get(JOB, "f-a"))["spec"]
    assert (made["queue"], made["maxRetry"], made["minAvailable"]) == ("urgent", 7, 6)
    assert made["plugins"] == {"env": [], "svc": []}
    assert [(t["name"], t["replicas"]) for t in made["tasks"]] == [("ps", 1), ("worker", 5), ("more", 1)]
    worker = made["tasks"][1]
    assert worker["policies"] == tasks[1]["policies"]
    assert worker["template"]["metadata"]["labels"] == {"a": "b"}
    assert worker["template"]["spec"]["containers"] == [{**container, "args": ["x"]}, sidecar]
    assert made["tasks"][0] == tasks[0]


async def test_nothing_of_what_was_said_about_a_job_stays_behind() -> None:
    """What stayed behind would be found wrong, and written to no effect, again and again."""
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS[:1]})
        for phase_of_pod, phase_of_job in (("Running", "Running"), ("Succeeded", "Completed")):
            counts = {"default": {"phase": {"Running": None, phase_of_pod: 1}}}
            status = {"state": {"phase": phase_of_job}, "taskStatusCount": counts}
            await cluster.patch(JOB, "f-a", {"status": status}, "status")
        conditions = (await cluster.get(JOB_FLOW, "f"))["status"]["conditions"]
        assert conditions["f-a"]["taskStatusCount"] == {"default": {"phase": {"Succeeded": 1}}}
        assert await phase(cluster) == "Succeed"


async def test_a_job_has_the_user_of_its_flow() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        metadata = {"annotations": {"volcano.sh/user": "jane"}}
        await cluster.create(JOB_FLOW, "f", metadata=metadata, spec={"flows": [{"name": "a"}]})
        job = await cluster.get(JOB, "f-a")
        assert job["metadata"]["annotations"]["volcano.sh/user"] == "jane"

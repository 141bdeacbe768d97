"""JobFlows create their jobs in the order of their dependencies and sum up how they fare."""

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from tests.cluster import SmallCluster
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.base.http.dialer import connect_to
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.kube.api.errors import Invalid
from volcano.kube.api.kinds import EVENT, JOB, JOB_FLOW, JOB_TEMPLATE, POD
from volcano.kube.api.manifest import Manifest, uid_of

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


async def rejecting(
    request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission that rejects jobs of the queue `closed`."""
    if request.kind == JOB and new is not None and new["spec"].get("queue") == "closed":
        raise Invalid("queue `closed` is not open")
    return new


async def test_a_rejected_job_is_reported_and_tried_again_while_the_others_go_on() -> None:
    closed = {"name": "a", "patch": {"jobSpec": {"queue": "closed"}}}
    async with SmallCluster(JobFlowController(), admit=rejecting) as cluster:
        await templates(cluster, "a", "b")
        await cluster.create(JOB_FLOW, "f", spec={"flows": [closed, {"name": "b"}]})
        assert await cluster.names(JOB) == ["f-b"]
        warnings = [event for event in await cluster.all(EVENT) if event["type"] == "Warning"]
        assert [event["reason"] for event in warnings] == ["FailedCreate"]
        assert "queue `closed` is not open" in warnings[0]["message"]
        condition = (await cluster.get(JOB_FLOW, "f"))["status"]["conditions"]["f-a"]
        assert condition["reason"] == "FailedCreate"
        assert "queue `closed` is not open" in condition["message"]
        await cluster.pass_time(60)
        assert len([event for event in await cluster.all(EVENT) if event["type"] == "Warning"]) == 1
        await cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "a"}, {"name": "b"}]}})
        assert await cluster.names(JOB) == ["f-a", "f-b"]
        assert "reason" not in (await cluster.get(JOB_FLOW, "f"))["status"]["conditions"]["f-a"]


async def retried(cluster: SmallCluster, retries: int) -> None:
    metadata = {"annotations": {"volcano.sh/retries": str(retries)}}
    await cluster.create(JOB_TEMPLATE, "a", spec=SPEC, metadata=metadata)
    await cluster.create(JOB_FLOW, "f", spec={"flows": FLOWS[:1]})


async def fail(cluster: SmallCluster) -> str:
    """The job fails; returns its uid."""
    state = {"phase": "Failed", "lastTransitionTime": cluster.clock.now().timestamp()}
    return uid_of(await cluster.patch(JOB, "f-a", {"status": {"state": state}}, "status"))


async def test_a_failed_job_is_created_again_as_often_as_its_template_allows() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await retried(cluster, 2)
        for number, delay in ((1, 10), (2, 20)):
            failed = await fail(cluster)
            await cluster.pass_time(delay - 1)
            assert (await phase(cluster), uid_of(await cluster.get(JOB, "f-a"))) == ("Running", failed)
            await cluster.pass_time(3)
            job = await cluster.get(JOB, "f-a")
            assert uid_of(job) != failed
            assert job["metadata"]["annotations"]["volcano.sh/retry-number"] == str(number)
        await fail(cluster)
        await cluster.pass_time(400)
        status = (await cluster.get(JOB_FLOW, "f"))["status"]
        assert (status["state"]["phase"], status["jobStatusList"][0]["retries"]) == ("Failed", 2)


async def test_a_retry_succeeds_and_the_flow_with_it() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await retried(cluster, 1)
        await fail(cluster)
        await cluster.pass_time(12)
        await set_phase(cluster, "f-a", "Completed")
        assert await phase(cluster) == "Succeed"


async def test_a_new_controller_continues_a_retry_without_counting_it_again() -> None:
    async with SmallCluster() as cluster:
        first = cluster.start(JobFlowController())
        await retried(cluster, 1)
        await fail(cluster)
        first.cancel()
        entry = {"name": "f-a", "state": "Failed", "restartCount": 0, "retries": 1, "runningHistories": []}
        await cluster.patch(JOB_FLOW, "f", {"status": {"jobStatusList": [entry]}}, "status")
        cluster.start(JobFlowController())
        await cluster.rest()
        job = await cluster.get(JOB, "f-a")
        assert job["metadata"]["annotations"]["volcano.sh/retry-number"] == "1"


def probed(**probe: object) -> list[Manifest]:
    return [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]


async def test_a_step_starts_when_the_tasks_of_its_target_have_reached_a_phase() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a", "b")
        status = [{"taskName": "default0", "phase": "Running"}]
        await cluster.create(JOB_FLOW, "f", spec={"flows": probed(taskStatusList=status)})
        await set_phase(cluster, "f-a", "Running")
        assert await cluster.names(JOB) == ["f-a"]
        condition = (await cluster.get(JOB_FLOW, "f"))["status"]["conditions"]["f-b"]
        assert condition["reason"] == "ProbePending"
        assert "task default0 of job f-a" in condition["message"]
        counts = {"default0": {"phase": {"Running": 1}}}
        await cluster.patch(JOB, "f-a", {"status": {"taskStatusCount": counts}}, "status")
        assert await cluster.names(JOB) == ["f-a", "f-b"]


async def until(cluster: SmallCluster, condition: Callable[[list[str]], bool]) -> None:
    """Waits until the names of jobs meet a condition; probes take real time."""
    deadline = time.monotonic() + 30
    while not condition(await cluster.names(JOB)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
        await cluster.pass_time(1)


async def serve(answer: bytes) -> asyncio.Server:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        writer.write(answer if b" /ready " in line else b"HTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("entry", "starts"),
    [
        pytest.param({"tcpSocketList": [{"taskName": "default0", "port": 80}]}, True, id="a port"),
        pytest.param({"httpGetList": [{"path": "/ready", "port": 80}]}, True, id="a page of any task"),
        pytest.param({"httpGetList": [{"path": "/no", "port": 80}]}, False, id="a page that is not there"),
        pytest.param(
            {"httpGetList": [{"path": "/ready", "port": 80, "httpHeader": {"name": "a\r\nb", "value": ""}}]},
            False,
            id="a header that is none",
        ),
    ],
)
async def test_a_step_starts_when_a_pod_of_its_target_answers(entry: Manifest, starts: bool) -> None:
    server = await serve(b"HTTP/1.1 204 No Content\r\n\r\n")
    port = server.sockets[0].getsockname()[1]
    dialed: list[str] = []

    async def dial(host: str, number: int) -> socket.socket:
        dialed.append(host)
        assert number == 80
        return await connect_to("127.0.0.1", port)

    async with server, SmallCluster(JobFlowController(dial=dial)) as cluster:
        await templates(cluster, "a", "b")
        await cluster.create(JOB_FLOW, "f", spec={"flows": probed(**entry)})
        await set_phase(cluster, "f-a", "Running")
        labels = {"volcano.sh/job-name": "f-a", "volcano.sh/task-spec": "default0"}
        await cluster.create(POD, "p", metadata={"labels": labels}, spec=SPEC["tasks"][0]["template"]["spec"])
        assert await cluster.names(JOB) == ["f-a"]
        await cluster.patch(POD, "p", {"status": {"podIP": "10.1.2.3"}}, "status")
        if starts:
            await until(cluster, lambda names: names == ["f-a", "f-b"])
        else:
            await cluster.pass_time(20)
            assert await cluster.names(JOB) == ["f-a"]
            conditions = (await cluster.get(JOB_FLOW, "f"))["status"]["conditions"]
            assert "waits for httpGet 80" in conditions["f-b"]["message"]
        assert set(dialed) <= {"10.1.2.3"}


async def test_a_completed_target_needs_no_probe() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a", "b")
        await cluster.create(JOB_FLOW, "f", spec={"flows": probed(tcpSocketList=[{"port": 80}])})
        await set_phase(cluster, "f-a", "Completed")
        assert await cluster.names(JOB) == ["f-a", "f-b"]

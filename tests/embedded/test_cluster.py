"""A whole cluster in one process: it comes up, runs jobs, is reconfigured, and remembers."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from volcano.apiserver.storage.data_directory import DataDirectoryError
from volcano.base.clock import SystemClock
from volcano.base.metrics import render
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import FileError, read_files
from volcano.embedded.options import ClusterOptions
from volcano.embedded.state import DirectoryError
from volcano.kube.api.errors import ApiError, Unauthorized
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    SERVICE,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, Query
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import shipped

MANIFESTS = Path(__file__).parents[1] / "manifests"


@asynccontextmanager
async def cluster(
    directory: Path, *, nodes: str = "cpu=4,count=2", **settings: Any
) -> AsyncIterator[LocalCluster]:
    chosen = {"durable": False, "pools": parse_pools([], [nodes]), "sim_duration": 0.3, **settings}
    running = LocalCluster(ClusterOptions(directory, **chosen))
    try:
        await running.start()
        yield running
    finally:
        await running.stop()


async def until(check: Callable[[], Awaitable[object]], seconds: float = 20.0) -> Any:
    """Waits until a question is answered with something true; fails with the last answer."""
    found: object = None
    for _ in range(int(seconds / 0.02)):
        try:
            found = await check()
        except ApiError as error:
            found = error
        else:
            if found:
                return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {seconds} s; last answer: {found!r}")


def gang(name: str, replicas: int, cpu: str = "1", **spec: Any) -> Manifest:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    manifest: Manifest = {
        "apiVersion": JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
    }
    return {
        **manifest,
        "spec": {"schedulerName": "volcano", "minAvailable": replicas, "tasks": tasks, **spec},
    }


async def phase(client: Client, name: str) -> str:
    job = await client.get(JOB, Key("default", name))
    found: str = ((job.get("status") or {}).get("state") or {}).get("phase", "")
    return found


async def everything(client: Client, kind: Kind, **query: Any) -> list[Manifest]:
    return (await client.list(kind, Query(**query))).items


async def test_a_gang_runs_to_completion_over_https(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        client = connect(load_client_config({}, kubeconfig=str(running.kubeconfig)), SystemClock())
        await client.create(JOB, gang("train", 4))

        async def done() -> bool:
            return await phase(client, "train") == "Completed"

        await until(done)
        pods = await everything(client, POD, labels="volcano.sh/job-name=train")
        assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
        await client.close()


async def test_a_gang_that_does_not_fit_starts_nobody_and_says_why(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        await running.client.create(JOB, gang("large", 20))

        async def blocked() -> str:
            for group in await everything(running.client, POD_GROUP):
                for condition in (group.get("status") or {}).get("conditions") or ():
                    if condition["type"] == "Unschedulable" and condition["status"] == "True":
                        return str(condition["message"])
            return ""

        assert "cpu" in await until(blocked)
        pods = await everything(running.client, POD, namespace="default")
        assert all(not pod["spec"].get("nodeName") for pod in pods)


async def test_all_parts_show_their_metrics_in_one_place(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        await running.client.create(JOB, gang("train", 2))

        async def counted() -> bool:
            shown = render(running.metrics).decode()
            wanted = (
                "apiserver_current_inflight_requests",
                'volcano_queue_weight{queue_name="default"} 1.0',
                'volcano_queue_pod_group_pending_count{queue_name="default"} 0.0',
                'volcano_job_completed_phase_count{job_name="default/train"',
            )
            return all(line in shown for line in wanted)

        await until(counted)


async def test_pods_of_kubernetes_default_scheduler_are_placed_too(tmp_path: Path) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", "namespace": "default"},
        "spec": spec,
    }
    async with cluster(tmp_path) as running:
        await running.client.create(POD, pod)

        async def ended() -> bool:
            found = await running.client.get(POD, Key("default", "plain"))
            return bool(found["status"]["phase"] == "Succeeded")

        await until(ended)
        assert await everything(running.client, POD_GROUP) == []


async def test_resource_groups_assign_pods_of_other_schedulers_to_ours(tmp_path: Path) -> None:
    groups = tmp_path / "admission.yaml"
    group = {
        "resourceGroup": "batch",
        "object": {"key": "namespace", "value": ["default"]},
        "schedulerName": "volcano",
        "labels": {"kubernetes.io/os": "linux"},
    }
    groups.write_text(yaml.safe_dump({"resourceGroups": [group]}))
    async with cluster(tmp_path / "cluster", admission_conf=groups) as running:
        container = {"name": "c", "image": "i"}
        metadata = {"name": "p", "namespace": "default"}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container]},
        }
        made = await running.client.create(POD, manifest)
        assert made["spec"]["schedulerName"] == "volcano"
        assert made["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        await until(lambda: _pod_group_of(running.client))


async def _pod_group_of(client: Client) -> bool:
    return len((await client.list(POD_GROUP, Query(namespace="default"))).items) == 1


async def test_our_components_are_shown_as_deployments_with_running_pods(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:

        async def available() -> list[str]:
            found = await everything(running.client, DEPLOYMENT, namespace="volcano-system")
            names = [
                d["metadata"]["name"] for d in found if (d.get("status") or {}).get("availableReplicas") == 1
            ]
            return sorted(names) if len(names) == 3 else []

        assert await until(available) == ["volcano-admission", "volcano-controllers", "volcano-scheduler"]
        text = "\n".join(line.text for line in running.logs.lines("volcano-scheduler"))
        assert "configuration loaded" in text


async def test_editing_the_config_map_reconfigures_the_scheduler_and_a_bad_one_is_ignored(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as running:
        key = Key("volcano-system", "volcano-scheduler-configmap")

        async def actions() -> tuple[str, ...]:
            config = running.scheduler.source.current
            return config.actions if config else ()

        preempting = {"data": {"volcano-scheduler.conf": shipped("volcano-scheduler-preempt.conf")}}
        await running.client.patch(CONFIG_MAP, key, preempting)

        async def preempts() -> bool:
            return "preempt" in await actions()

        await until(preempts)
        await running.client.patch(
            CONFIG_MAP, key, {"data": {"volcano-scheduler.conf": 'actions: "dance"\n'}}
        )

        async def config_error() -> str:
            return running.scheduler.source.error

        assert "dance" in await until(config_error)
        assert "preempt" in await actions()


async def test_what_was_acknowledged_is_there_after_a_restart_and_versions_go_on(tmp_path: Path) -> None:
    async with cluster(tmp_path, durable=True) as running:
        made = await running.client.create(
            QUEUE,
            {
                "apiVersion": QUEUE.api_version,
                "kind": "Queue",
                "metadata": {"name": "kept"},
                "spec": {"weight": 7},
            },
        )
        url, token = running.url, (tmp_path / "admin.token").read_text()
    async with cluster(tmp_path, durable=True) as running:
        found = await running.client.get(QUEUE, Key("", "kept"))
        assert (found["metadata"]["uid"], found["spec"]["weight"]) == (made["metadata"]["uid"], 7)
        assert (tmp_path / "admin.token").read_text() == token
        assert running.registry.store.version > int(made["metadata"]["resourceVersion"])
        assert url.startswith("https://127.0.0.1:")
        assert len(await everything(running.client, NODE)) == 3


async def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        for name in ("admin.token", "ca.key", "server.key", "signing.key"):
            assert (tmp_path / name).stat().st_mode & 0o077 == 0
        assert running.kubeconfig.stat().st_mode & 0o077 == 0


async def test_without_the_right_token_nobody_gets_in(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        config = yaml.safe_load(running.kubeconfig.read_text())
        config["users"][0]["user"]["token"] = "guess"
        wrong = tmp_path / "wrong"
        wrong.write_text(yaml.safe_dump(config))
        client = connect(load_client_config({}, kubeconfig=str(wrong)), SystemClock())
        with pytest.raises(Unauthorized):
            await client.list(NODE)
        await client.close()
        foreign = ssl.create_default_context()
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", int(running.url.rpartition(":")[2]), ssl=foreign)


async def test_two_clusters_cannot_share_a_directory(tmp_path: Path) -> None:
    async with cluster(tmp_path, durable=True):
        second = LocalCluster(ClusterOptions(tmp_path))
        with pytest.raises(DataDirectoryError, match="use"):
            await second.start()
        await second.stop()


async def test_a_foreign_directory_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    running = LocalCluster(ClusterOptions(tmp_path))
    with pytest.raises(DirectoryError, match=r"thesis\.txt"):
        await running.start()
    await running.stop()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


async def test_the_configuration_asked_for_at_a_start_replaces_the_one_of_the_start_before(
    tmp_path: Path,
) -> None:
    key = Key("volcano-system", "volcano-scheduler-configmap")
    preempting = shipped("volcano-scheduler-preempt.conf")
    for asked, expected in ((None, shipped()), (preempting, preempting), (None, preempting)):
        async with cluster(tmp_path, durable=True, scheduler_conf=asked) as running:
            held = await running.client.get(CONFIG_MAP, key)
            assert held["data"] == {"volcano-scheduler.conf": expected}


async def test_components_log_placed_pending_and_denied_jobs(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:

        def says(component: str, words: str) -> Callable[[], Awaitable[object]]:
            async def look() -> bool:
                return any(words in line.text for line in running.logs.lines(component))

            return look

        await running.client.create(JOB, gang("fits", 2))
        await running.client.create(JOB, gang("huge", 2, cpu="999"))
        with pytest.raises(ApiError):
            await running.client.create(JOB, gang("lost", 1, queue="nowhere"))
        await until(says("volcano-scheduler", "placed job=default/fits"))
        await until(says("volcano-scheduler", "job unschedulable job=default/huge"))
        await until(says("volcano-controllers", "job phase changed job=default/fits phase=Completed"))
        await until(says("volcano-admission", "request denied kind=Job object=default/lost"))


async def test_a_bad_configuration_at_start_schedules_nothing_until_it_is_mended(tmp_path: Path) -> None:
    async with cluster(tmp_path, scheduler_conf='actions: "dance"\n') as running:
        await running.client.create(JOB, gang("wait", 1))
        await asyncio.sleep(0.5)
        assert await phase(running.client, "wait") == "Pending"
        assert "dance" in running.scheduler.source.error
        key = Key("volcano-system", "volcano-scheduler-configmap")
        await running.client.patch(CONFIG_MAP, key, {"data": {"volcano-scheduler.conf": shipped()}})

        async def done() -> bool:
            return await phase(running.client, "wait") == "Completed"

        await until(done)


async def test_a_refused_manifest_is_named_with_its_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("---\n" + yaml.safe_dump(gang("bad", 2, queue="nowhere")))
    async with cluster(tmp_path / "c") as running:
        with pytest.raises(FileError, match=r"job\.yaml:2: Job bad: .*spec\.queue.*nowhere"):
            await running.apply(read_files([str(path)]))
        path.write_text("apiVersion: v2\nkind: Pod\nmetadata: {name: x}\n")
        with pytest.raises(FileError, match="no matches for kind 'Pod' in version 'v2'"):
            await running.apply(read_files([str(path)]))


async def test_a_namespace_takes_everything_along_when_it_goes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        client = running.client
        await client.create(
            NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        )
        service = {"metadata": {"name": "s", "namespace": "team"}, "spec": {"ports": [{"port": 80}]}}
        await client.create(SERVICE, {"apiVersion": "v1", "kind": "Service", **service})
        await client.delete(NAMESPACE, Key("", "team"))

        async def gone() -> bool:
            return all(n["metadata"]["name"] != "team" for n in await everything(client, NAMESPACE))

        await until(gone)
        assert await everything(client, SERVICE, namespace="team") == []

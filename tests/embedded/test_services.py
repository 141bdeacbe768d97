"""Services lead to their pods on local nodes: by address, by name, by named ports, and by node ports."""

import asyncio
from pathlib import Path

import pytest

from tests.embedded.pods import PodCluster, pod_cluster, until
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType

pytestmark = pytest.mark.slow

WEB = {"app": "web"}


async def web(cluster: PodCluster, name: str, port: int = 8080, **options: object) -> Manifest:
    ports = [{"name": "http", "containerPort": port}]
    return await cluster.echo(name, port, labels=WEB, ports=ports, **options)


@pytest.mark.parametrize("runtime", ["netns", "userns"])
async def test_a_service_is_reached_at_its_address_and_name(tmp_path: Path, runtime: str) -> None:
    async with pod_cluster(tmp_path, runtime) as cluster:
        first = await web(cluster, "first")
        client = await cluster.pod("client")
        port = {"name": "http", "port": 80, "targetPort": "http"}
        service = await cluster.service("web", WEB, port)
        address = service["spec"]["clusterIP"]
        source = client["status"]["podIP"]
        await cluster.until_answer(client, address, 80, f"first {source}")
        assert await cluster.ask(client, "web", 80) == f"first {source}"
        # A pod reaches its own Service; another port of the Service is refused at once.
        assert (await cluster.ask(first, address, 80)).startswith("first ")
        assert await cluster.ask(client, address, 81) == "error: Connection refused"
        # Both pods get connections, and a pod that is gone gets none.
        await web(cluster, "second", 9090)
        answers: set[str] = set()
        for _ in range(100):
            answers.add((await cluster.ask(client, address, 80)).split()[0])
            if answers == {"first", "second"}:
                break
            await asyncio.sleep(0.05)
        assert answers == {"first", "second"}
        await cluster.client.delete(POD, Key("default", "first"))
        await cluster.client.delete(POD, Key("default", "second"))

        async def refused() -> bool:
            return await cluster.ask(client, address, 80) == "error: Connection refused"

        await until(refused, "the Service still leads somewhere")


@pytest.mark.slow
async def test_a_client_with_affinity_stays_with_one_pod(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path) as cluster:
        for name in ("a", "b", "c"):
            await web(cluster, name)
        client = await cluster.pod("client")
        port = {"port": 80, "targetPort": 8080}
        service = await cluster.service("web", WEB, port, sessionAffinity="ClientIP")
        address = service["spec"]["clusterIP"]
        await cluster.until_answer(client, address, 80, "")
        answers = {await cluster.ask(client, address, 80) for _ in range(12)}
        assert len(answers) == 1


@pytest.mark.parametrize("runtime", ["netns", "plain"])
async def test_a_node_port_leads_to_the_pods_from_loopback(tmp_path: Path, runtime: str) -> None:
    async with pod_cluster(tmp_path, runtime) as cluster:
        await web(cluster, "first", 18080)
        service = await cluster.service("web", WEB, {"port": 80, "targetPort": 18080}, type="NodePort")
        number = service["spec"]["ports"][0]["nodePort"]

        async def answered() -> bytes | None:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", number)
            except OSError:
                return None
            answer = await reader.read()
            writer.close()
            return answer or None

        assert await until(answered, "the node port does not answer")
        await cluster.client.delete(SERVICE, Key("default", "web"))

        async def closed() -> bool:
            return await answered() is None

        await until(closed, "the node port is still open")


async def test_endpoints_are_removed_with_their_service(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path, "plain") as cluster:
        await cluster.service("web", WEB, {"port": 80, "targetPort": 8080})
        key = Key("default", "web")

        async def present() -> list[Manifest]:
            endpoints = (await cluster.client.list(ENDPOINTS)).items
            slices = (await cluster.client.list(ENDPOINT_SLICE)).items
            return [each for each in (*endpoints, *slices) if each["metadata"]["name"].startswith("web")]

        async def both() -> bool:
            return len(await present()) == 2

        async def none() -> bool:
            return not await present()

        await until(both, "no endpoints were made")
        # A Service that loses its selector keeps its endpoints, which are the user's from then on.
        options = Options(patch_type=PatchType.MERGE)
        await cluster.client.patch(SERVICE, key, {"spec": {"selector": None}}, options=options)
        assert await both()
        await cluster.client.delete(SERVICE, key)
        await until(none, "the endpoints are left")

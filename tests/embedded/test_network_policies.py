"""NetworkPolicies are enforced between pods of local nodes, with real connections."""

from pathlib import Path
from typing import Any

import pytest

from tests.embedded.pods import ECHO, PodCluster, pod_cluster, until
from volcano.kube.api.kinds import EVENT, JOB, NAMESPACE, NETWORK_POLICY, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType

pytestmark = pytest.mark.slow

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 8080), 5)
    print("reached")
except OSError as error:
    print(error)
"""
REJECTED = "error: No route to host"
MERGE = Options(patch_type=PatchType.MERGE)


async def policy(cluster: PodCluster, name: str, namespace: str = "default", **spec: Any) -> Manifest:
    fields = {"podSelector": {}, **spec}
    return await cluster.create(NETWORK_POLICY, name, namespace=namespace, spec=fields)


@pytest.mark.parametrize("runtime", ["netns", "userns"])
async def test_policies_apply_as_policies_pods_and_namespaces_change(tmp_path: Path, runtime: str) -> None:
    async with pod_cluster(tmp_path, runtime) as cluster:
        await cluster.create(NAMESPACE, "other")
        server = await cluster.echo("server", 8080, 8081, labels={"app": "server"})
        client = await cluster.pod("client", labels={"app": "client"})
        guest = await cluster.pod("guest", namespace="other", labels={"app": "client"})
        address = server["status"]["podIP"]
        assert (await cluster.ask(client, address, 8080)).startswith("server")
        assert (await cluster.ask(guest, address, 8080)).startswith("server")

        # Default deny, then one port for some pods of the namespace.
        await policy(cluster, "deny")
        await cluster.until_answer(client, address, 8080, REJECTED)
        assert await cluster.ask(guest, address, 8080) == REJECTED
        selected = {"podSelector": {"matchLabels": {"app": "client"}}}
        await policy(cluster, "allow", ingress=[{"from": [selected], "ports": [{"port": 8080}]}])
        await cluster.until_answer(client, address, 8080, "server")
        assert await cluster.ask(client, address, 8081) == REJECTED
        assert await cluster.ask(guest, address, 8080) == REJECTED

        # Labels of pods and namespaces change what is selected.
        pod = Key("default", "client")
        await cluster.client.patch(POD, pod, {"metadata": {"labels": {"app": "nothing"}}}, options=MERGE)
        await cluster.until_answer(client, address, 8080, REJECTED)
        friends = {"namespaceSelector": {"matchLabels": {"friend": "yes"}}}
        await policy(cluster, "friends", ingress=[{"from": [friends]}])
        assert await cluster.ask(guest, address, 8080) == REJECTED
        friend = {"metadata": {"labels": {"friend": "yes"}}}
        await cluster.client.patch(NAMESPACE, Key("", "other"), friend, options=MERGE)
        await cluster.until_answer(guest, address, 8080, "server")

        # A Service of the pod is subject to the same policies.
        service = await cluster.service("server", {"app": "server"}, {"port": 80, "targetPort": 8080})
        at = service["spec"]["clusterIP"]
        await cluster.until_answer(guest, at, 80, "server")
        assert await cluster.ask(client, at, 80) == REJECTED

        # Without policies everything is open again.
        for name in ("deny", "allow", "friends"):
            await cluster.client.delete(NETWORK_POLICY, Key("default", name))
        await cluster.until_answer(client, address, 8081, "server")


async def test_egress_is_limited_to_the_allowed_peers_and_names_need_the_dns_server(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path) as cluster:
        ports = [{"name": "web", "containerPort": 8080}]
        server = await cluster.echo("server", 8080, 8081, labels={"app": "server"}, ports=ports)
        client = await cluster.pod("client", labels={"app": "client"})
        await cluster.service("server", {"app": "server"}, {"port": 80, "targetPort": 8080})
        address = server["status"]["podIP"]
        await cluster.until_answer(client, "server", 80, "server")
        chosen = {"matchLabels": {"app": "client"}}
        to_server = {"to": [{"podSelector": {"matchLabels": {"app": "server"}}}], "ports": [{"port": "web"}]}
        await policy(cluster, "out", podSelector=chosen, policyTypes=["Egress"], egress=[to_server])
        await cluster.until_answer(client, address, 8081, REJECTED)
        assert (await cluster.ask(client, address, 8080)).startswith("server")
        assert (await cluster.ask(client, "server", 80)).startswith("error: ")  # the name is not resolved
        kube_system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
        to_dns = {
            "to": [{**kube_system, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
            "ports": [{"port": 53, "protocol": "UDP"}],
        }
        await policy(cluster, "dns", podSelector=chosen, policyTypes=["Egress"], egress=[to_dns])
        await cluster.until_answer(client, "server", 80, "server")
        # The isolated pod itself can be reached, also by probes and from the node.
        assert (await cluster.ask(server, client["status"]["podIP"], 9)) == "error: Connection refused"


async def test_a_pod_never_runs_without_its_policies(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path) as cluster:
        server = await cluster.echo("server", 8080)
        await policy(cluster, "none", podSelector={"matchLabels": {"app": "closed"}}, policyTypes=["Egress"])
        command = ["python3", "-c", CONNECT, server["status"]["podIP"]]
        for number in range(5):
            name = f"closed-{number}"
            container = {"name": "main", "image": "none", "command": command}
            spec = {"nodeName": "local-0", "restartPolicy": "Never", "containers": [container]}
            await cluster.create(POD, name, metadata={"labels": {"app": "closed"}}, spec=spec)

            async def ended(name: str = name) -> Manifest | None:
                pod = await cluster.client.get(POD, Key("default", name))
                return pod if (pod.get("status") or {}).get("phase") == "Succeeded" else None

            await until(ended, f"{name} does not end")
        nodes = cluster.cluster.local_nodes
        assert nodes is not None
        logs = [path.read_text() for path in nodes.pods.rglob("0.log")]
        assert not any("reached" in text for text in logs)
        assert sum("No route to host" in text for text in logs) == 5


async def test_the_policy_of_the_svc_plugin_lets_only_the_jobs_own_pods_in(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path) as cluster:
        container = {"name": "main", "image": "none", "command": ["python3", "-c", ECHO, "8080"]}
        task = {
            "replicas": 2,
            "name": "w",
            "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 0}},
        }
        await cluster.create(JOB, "gang", spec={"minAvailable": 2, "plugins": {"svc": []}, "tasks": [task]})

        async def created() -> bool:
            pods = (await cluster.client.list(POD)).items
            return {"gang-w-0", "gang-w-1"} <= {pod["metadata"]["name"] for pod in pods}

        await until(created, "the pods are not created")
        first, second = [await cluster.until_ready(f"gang-w-{index}") for index in range(2)]
        stranger = await cluster.pod("stranger")
        await cluster.until_answer(first, second["status"]["podIP"], 8080, "gang-w-1")
        assert await cluster.ask(stranger, second["status"]["podIP"], 8080) == REJECTED


async def test_a_runtime_that_cannot_enforce_a_policy_says_so(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path, "plain") as cluster:
        await policy(cluster, "deny")

        async def warned() -> Manifest | None:
            events = (await cluster.client.list(EVENT)).items
            return next((each for each in events if each["reason"] == "NetworkPolicyNotEnforced"), None)

        event = await until(warned, "no event about the policy")
        about = event.get("regarding") or event["involvedObject"]
        assert (about["kind"], about["name"]) == ("NetworkPolicy", "deny")
        assert "plain" in (event.get("note") or event["message"])

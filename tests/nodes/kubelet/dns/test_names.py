"""Addresses of cluster DNS names."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.controllers.job.controller import JobController
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, JOB, POD, POD_GROUP, QUEUE, SERVICE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.nodes.kubelet.dns.names import ClusterDns
from volcano.nodes.kubelet.dns.records import DnsAnswer, RecordType
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

DOMAIN = "svc.cluster.local"
TASK = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0"}


class World:
    """Cluster DNS and the objects it receives."""

    def __init__(self) -> None:
        self.names = ClusterDns()
        self._version = 0

    def put(self, kind: Kind, name: str, *, gone: bool = False, **fields: Any) -> None:
        self._version += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": str(self._version),
        }
        manifest = {**fields, "metadata": metadata | fields.pop("metadata", {})}
        self.names.on_event(Event(EventType.DELETED if gone else EventType.MODIFIED, kind, manifest))

    def pod(self, name: str, address: str = "", *, phase: str = "Running", **fields: Any) -> None:
        spec, labels = fields.get("spec", {}), fields.get("labels", {})
        status = {"phase": phase, **({"podIP": address} if address else {})}
        self.put(POD, name, metadata={"labels": labels}, spec=spec, status=status)

    def slice(self, service: str, *endpoints: Manifest, ports: Sequence[Manifest] = ()) -> None:
        metadata = {"labels": {"kubernetes.io/service-name": service}}
        self.put(
            ENDPOINT_SLICE, f"{service}-1", metadata=metadata, addressType="IPv4",
            endpoints=list(endpoints), ports=list(ports),
        )  # fmt: skip

    def ask(self, name: str, asked: RecordType = RecordType.A) -> DnsAnswer:
        return self.names.lookup(name, asked)

    def addresses(self, name: str) -> list[str]:
        return [record.value for record in self.ask(f"{name}.{DOMAIN}").records]


def endpoint(address: str, *, ready: bool = True, **fields: Any) -> Manifest:
    return {"addresses": [address], "conditions": {"ready": ready}, **fields}


def test_pods_of_a_job_are_found_by_pod_by_hostname_and_by_task_and_index() -> None:
    world = World()
    world.pod("train-worker-0", "10.88.0.5", labels=TASK, spec={"hostname": "w", "subdomain": "train"})
    for host in ("train-worker-0", "w", "worker-0"):
        assert world.addresses(f"{host}.train.default") == ["10.88.0.5"]
    assert not world.ask(f"worker-1.train.default.{DOMAIN}").exists
    assert not world.ask(f"worker-0.train.other.{DOMAIN}").exists
    assert world.addresses("WORKER-0.Train.default") == ["10.88.0.5"]


def test_a_pod_is_found_from_the_moment_it_has_an_address_until_it_is_over() -> None:
    world = World()
    name = "worker-0.train.default"
    world.pod("train-worker-0", phase="Pending", labels=TASK)
    assert not world.ask(f"{name}.{DOMAIN}").exists
    world.names.set_pod_address("uid-of-train-worker-0", "10.88.0.5")
    assert world.addresses(name) == ["10.88.0.5"]
    world.pod("train-worker-0", "10.88.0.5", labels=TASK)
    world.names.set_pod_address("uid-of-train-worker-0", "")
    assert world.addresses(name) == ["10.88.0.5"]
    world.pod("train-worker-0", "10.88.0.9", labels=TASK)
    assert world.addresses(name) == ["10.88.0.9"]
    world.pod("train-worker-0", "10.88.0.9", phase="Failed", labels=TASK)
    assert not world.ask(f"{name}.{DOMAIN}").exists


def test_a_subdomain_counts_when_a_headless_service_of_that_name_selects_the_pod() -> None:
    world = World()
    world.pod("p", "10.88.0.5", labels={"app": "db"}, spec={"hostname": "db-0", "subdomain": "db"})
    assert not world.ask(f"db-0.db.default.{DOMAIN}").exists
    world.put(SERVICE, "db", spec={"clusterIP": "None", "selector": {"app": "web"}})
    assert not world.ask(f"db-0.db.default.{DOMAIN}").exists
    world.put(SERVICE, "db", spec={"clusterIP": "None", "selector": {"app": "db"}})
    assert world.addresses("db-0.db.default") == ["10.88.0.5"]


@pytest.mark.parametrize("cluster_ip", ["None", "10.96.7.7"])
def test_a_service_stands_for_its_ready_addresses(cluster_ip: str) -> None:
    world = World()
    world.slice("web", endpoint("10.88.0.6"), endpoint("10.88.0.5"), endpoint("10.88.0.7", ready=False))
    assert not world.ask(f"web.default.{DOMAIN}").exists  # there is no such Service
    world.put(SERVICE, "web", spec={"clusterIP": cluster_ip})
    assert world.addresses("web.default") == ["10.88.0.5", "10.88.0.6"]
    assert world.ask(f"web.default.{DOMAIN}", RecordType.AAAA) == DnsAnswer(exists=True)
    assert world.addresses("10-88-0-6.web.default") == ["10.88.0.6"]
    world.slice("web")
    assert not world.ask(f"web.default.{DOMAIN}").exists


def test_addresses_written_down_by_hand_count_too() -> None:
    world = World()
    world.put(SERVICE, "old", spec={"clusterIP": "10.96.1.1"})
    world.put(
        ENDPOINTS,
        "old",
        subsets=[{"addresses": [{"ip": "192.0.2.9", "hostname": "h"}], "ports": [{"port": 1}]}],
    )
    assert world.addresses("old.default") == world.addresses("h.old.default") == ["192.0.2.9"]


def test_named_ports_are_found_where_pods_serve_them() -> None:
    world = World()
    world.put(SERVICE, "web", spec={"clusterIP": "None"})
    ports = [
        {"name": "http", "port": 8080, "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]
    world.slice("web", endpoint("10.88.0.5", hostname="a"), endpoint("10.88.0.6"), ports=ports)
    found = world.ask(f"_http._tcp.web.default.{DOMAIN}", RecordType.SRV)
    assert [(record.value, record.port) for record in found.records] == [
        (f"a.web.default.{DOMAIN}", 8080),
        (f"10-88-0-6.web.default.{DOMAIN}", 8080),
    ]
    assert [record.value for record in found.additional] == ["10.88.0.5", "10.88.0.6"]
    assert len(world.ask(f"web.default.{DOMAIN}", RecordType.SRV).records) == 4
    assert not world.ask(f"_http._udp.web.default.{DOMAIN}", RecordType.SRV).exists


def test_the_api_server_is_where_pods_reach_it() -> None:
    world = World()
    assert world.addresses("kubernetes.default") == ["10.96.0.1"]
    (port,) = world.ask(f"_https._tcp.kubernetes.default.{DOMAIN}", RecordType.SRV).records
    assert (port.value, port.port) == (f"kubernetes.default.{DOMAIN}", 443)


def test_pods_are_found_by_their_address_in_their_own_namespace() -> None:
    world = World()
    world.pod("p", "10.88.0.5")
    assert world.ask("10-88-0-5.default.pod.cluster.local").exists
    assert not world.ask("10-88-0-5.other.pod.cluster.local").exists
    assert not world.ask("10-88-0-6.default.pod.cluster.local").exists


def test_addresses_are_called_back_by_their_proper_names() -> None:
    world = World()
    world.pod("train-worker-0", "10.88.0.5", labels=TASK)
    world.pod("lone", "10.88.0.6")
    world.put(SERVICE, "web", spec={"clusterIP": "None"})
    world.slice("web", endpoint("10.88.0.7"))
    names_found = {
        "5.0.88.10": f"train-worker-0.train.default.{DOMAIN}",
        "6.0.88.10": "10-88-0-6.default.pod.cluster.local",
        "7.0.88.10": f"10-88-0-7.web.default.{DOMAIN}",
        "1.0.96.10": f"kubernetes.default.{DOMAIN}",
    }
    for address, name in names_found.items():
        (record,) = world.ask(f"{address}.in-addr.arpa", RecordType.PTR).records
        assert record.value == name
    assert not world.ask("9.0.88.10.in-addr.arpa", RecordType.PTR).exists
    assert not world.ask("nonsense.in-addr.arpa", RecordType.PTR).exists


def test_external_names_are_aliases_and_never_go_round_in_circles() -> None:
    world = World()
    world.put(SERVICE, "a", spec={"type": "ExternalName", "externalName": f"b.default.{DOMAIN}"})
    world.put(SERVICE, "b", spec={"type": "ExternalName", "externalName": f"a.default.{DOMAIN}"})
    world.put(SERVICE, "api", spec={"type": "ExternalName", "externalName": f"kubernetes.default.{DOMAIN}"})
    assert [record.type for record in world.ask(f"a.default.{DOMAIN}").records] == [RecordType.CNAME] * 2
    assert [record.value for record in world.ask(f"api.default.{DOMAIN}").records] == [
        f"kubernetes.default.{DOMAIN}",
        "10.96.0.1",
    ]


def test_names_outside_the_cluster_are_not_answered() -> None:
    world = World()
    assert not world.ask("example.org").authoritative
    assert not world.ask("").authoritative
    assert world.ask(f"nothing.default.{DOMAIN}").authoritative


def test_an_object_that_goes_takes_its_names_along() -> None:
    world = World()
    world.pod("train-worker-0", "10.88.0.5", labels=TASK)
    world.put(POD, "train-worker-0", gone=True, spec={})
    assert not world.ask(f"worker-0.train.default.{DOMAIN}").exists


async def test_a_job_with_the_svc_plugin_is_found_by_every_name_the_guides_use() -> None:
    """Through the real controllers: the names of `worker-0.job-name`, of VC_WORKER_HOSTS, and the job's own."""
    names = ClusterDns()
    nodes = SimulatedNodes(nodes_of(parse_pools([1], [])))
    async with SmallCluster(JobController(), EndpointsController(), nodes, names) as cluster:
        await cluster.create(QUEUE, "default", spec={"weight": 1})
        template = {"spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}}
        task = {"name": "worker", "replicas": 2, "template": template}
        await cluster.create(JOB, "train", spec={"minAvailable": 2, "plugins": {"svc": []}, "tasks": [task]})
        (group,) = await cluster.names(POD_GROUP)
        await cluster.patch(POD_GROUP, group, {"status": {"phase": "Inqueue"}})
        await cluster.pass_time(3)
        pods = await cluster.all(POD)
        addresses = [pod["status"]["podIP"] for pod in pods]
        assert len(addresses) == 2

        def found(name: str) -> list[str]:
            return [record.value for record in names.lookup(f"{name}.default.{DOMAIN}", RecordType.A).records]

        assert [found(f"worker-{index}.train") for index in range(2)] == [[each] for each in addresses]
        assert [found(f"train-worker-{index}.train") for index in range(2)] == [[each] for each in addresses]
        assert sorted(found("train")) == sorted(addresses)


def test_a_service_with_an_address_resolves_to_it_where_it_leads_to_its_pods() -> None:
    world = World()
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    world.put(SERVICE, "web", spec={"clusterIP": "10.96.3.4", "ports": ports})
    world.put(SERVICE, "headless", spec={"clusterIP": "None", "ports": ports})
    pod_ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    world.slice("web", endpoint("10.88.0.5"), ports=pod_ports)
    world.slice("headless", endpoint("10.88.0.5"), ports=pod_ports)
    assert world.addresses("web.default") == ["10.88.0.5"]
    world.names.service_addresses = True
    assert world.addresses("web.default") == ["10.96.3.4"]
    assert world.addresses("headless.default") == ["10.88.0.5"]
    (record,) = world.ask(f"_http._tcp.web.default.{DOMAIN}", RecordType.SRV).records
    assert (record.value, record.port) == (f"web.default.{DOMAIN}", 80)
    (pointer,) = world.ask("4.3.96.10.in-addr.arpa", RecordType.PTR).records
    assert pointer.value == f"web.default.{DOMAIN}"

"""A program that asks the record of cycles through a real API server, in a network namespace of its own.

Usage: `python -m tests.k8s.scheduler_service DIRECTORY`.

An API server does not proxy to loopback addresses, and Endpoints may not have them. The process leaves the machine's
network for a new namespace with an address of the documentation range, where the control plane and the scheduler run;
nothing outside can be reached. Prints as JSON the results of the commands.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import yaml

from tests.k8s.control_plane import cluster as control_plane
from tests.k8s.plain import GROUPS, MERGE, PODS, QUEUES, Api, until
from tests.k8s.programs import ROOT, Programs, free_port
from volcano.nodes.shim.isolation import netlink, syscalls

ADDRESS, GATEWAY = "203.0.113.1", "203.0.113.9"
LOOPBACK = 1
INSTALLER = ROOT / "installer" / "volcano-development.yaml"
SYSTEM = "/api/v1/namespaces/volcano-system"
ALIVE_SECONDS = 150.0  # after that, the program ends whatever it waits for


def main(directory: Path) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET)
    build_network()
    running = control_plane.start(directory / "control-plane")
    programs = Programs(running, directory)

    def stop() -> None:
        programs.stop()
        running.stop()

    def give_up() -> None:
        stop()
        os._exit(1)

    watchdog = threading.Timer(ALIVE_SECONDS, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        sys.stdout.write(json.dumps(explained(programs)))
    finally:
        watchdog.cancel()
        stop()


def build_network() -> None:
    """An interface with the address, both ends of which are in this namespace, and a default route, without which an
    API server does not start."""
    routing, namespace = netlink.NetlinkSocket(), os.open("/proc/self/ns/net", os.O_RDONLY)
    pair = netlink.veth("eth0", 10, "other", 11, b"\x02\x60\0\0\0\1", namespace)
    routing.send([netlink.up(LOOPBACK), pair, netlink.address(10, ADDRESS, 24), netlink.up(11)])
    routing.send([netlink.default_route(GATEWAY)])
    os.close(namespace)
    routing.close()


def explained(programs: Programs) -> dict[str, Any]:
    port = free_port()
    programs.prepare("team")
    programs.start(
        "scheduler",
        "--leader-elect=false",
        "--listen-address",
        f"{ADDRESS}:{port}",
        "--enable-metrics=true",
    )
    api = programs.api
    until(lambda: bool(api.get(f"{QUEUES}/default")), 60.0, programs.logs)
    found: dict[str, Any] = {"without a Service": outcome(programs.vcctl("explain", "cycle"))}
    create_node(api)
    create_service(api, port)
    create_jobs(api)
    until(lambda: is_decided(api), 60.0, programs.logs)
    found["cycles"] = outcome(programs.vcctl("explain", "cycle", "-o", "json"))
    assert not found["cycles"]["code"], found["cycles"]
    number = str(json.loads(found["cycles"]["output"])["last"])
    found["one cycle"] = outcome(programs.vcctl("explain", "cycle", number))
    found["a number that is unknown"] = outcome(programs.vcctl("explain", "cycle", "9999999"))
    found["pod"] = outcome(
        programs.vcctl("explain", "pod", "small-0", "-n", "team", "--cycle", number, "-v", "scores")
    )
    found["job"] = outcome(programs.vcctl("explain", "job", "large", "-n", "team"))
    return found


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {"code": done.returncode, "output": done.stdout, "errors": done.stderr}


def create_service(api: Api, port: int) -> None:
    """The Service of the installer, a pod with the scheduler's address, and what Kubernetes' controllers make of them.

    An API server proxies to addresses of pods only.
    """
    documents = yaml.safe_load_all(INSTALLER.read_text())
    service = next(
        each
        for each in documents
        if each and each["kind"] == "Service" and each["metadata"]["labels"]["app"] == "volcano-scheduler"
    )
    name = service["metadata"]["name"]
    api.call("POST", f"{SYSTEM}/services", service)
    metadata = {"name": "volcano-scheduler-0", "labels": service["spec"]["selector"]}
    container = {"name": "main", "image": "volcano-scheduler"}
    spec = {"nodeName": "n1", "containers": [container], "automountServiceAccountToken": False}
    pod = api.call("POST", f"{SYSTEM}/pods", {"metadata": metadata, "spec": spec})
    address = {"status": {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}}
    api.call("PATCH", f"{SYSTEM}/pods/volcano-scheduler-0/status", address, MERGE)
    target = {
        "kind": "Pod",
        "namespace": "volcano-system",
        "name": "volcano-scheduler-0",
        "uid": pod["metadata"]["uid"],
    }
    ports = [{"name": each["name"], "port": port} for each in service["spec"]["ports"]]
    subsets = [{"addresses": [{"ip": ADDRESS, "targetRef": target}], "ports": ports}]
    api.call("POST", f"{SYSTEM}/endpoints", {"metadata": {"name": name}, "subsets": subsets})
    api.call(
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/volcano-system/endpointslices",
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}, "targetRef": target}],
            "ports": ports,
        },
    )


def create_node(api: Api) -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": ready}
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})


def create_jobs(api: Api) -> None:
    """A job that fits on the node, and one that does not."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    for name, cpu in (("small", "1"), ("large", "9")):
        group = {"metadata": {"name": name}, "spec": {"minMember": 1, "queue": "default"}}
        api.call("POST", GROUPS.format("team"), {**kind, **group})
        metadata = {"name": f"{name}-0", "annotations": {"scheduling.k8s.io/group-name": name}}
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "volcano", "containers": [container], "automountServiceAccountToken": False}
        api.call("POST", PODS.format("team"), {"metadata": metadata, "spec": spec})


def is_decided(api: Api) -> bool:
    """Whether the small job has its node and the large one its diagnosis."""
    pod = api.get(f"{PODS.format('team')}/small-0")
    group = api.get(f"{GROUPS.format('team')}/large")
    return bool(pod["spec"].get("nodeName")) and bool((group.get("status") or {}).get("conditions"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

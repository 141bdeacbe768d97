"""From manifests to container specs, sandbox specs and Node objects."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.kubelet.pods.bench import MACHINE, bench, container, spec
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.environment.downward import PodInfo
from volcano.nodes.kubelet.machine import MOST_POD_PIDS, node_pressures, parse_gpu_list, read_machine_info
from volcano.nodes.kubelet.node import local_nodes
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.pods.checkpoint import PodCheckpoint, load, save
from volcano.nodes.kubelet.pods.pod_resources import check_fit, pod_limit, totals
from volcano.nodes.kubelet.pods.sandboxes import HostFiles, hosts_file, resolv_conf, sandbox_spec
from volcano.nodes.kubelet.pods.security import identity_of, security_of
from volcano.nodes.kubelet.pods.status import go_duration
from volcano.nodes.kubelet.pods.termination_message import termination_message
from volcano.nodes.shim.specs import Failure, Identity

SETTINGS = KubeletOptions(Path("/data"))
FACTS = PodInfo("", (), "192.0.2.7", "local-0")
HOST = HostFiles(
    "127.0.0.1 localhost", "search corp.example\nnameserver 192.0.2.53\noptions timeout:2 ndots:1\n"
)


def pod(**fields: object) -> Manifest:
    return {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": spec(**fields)}


@pytest.mark.parametrize(
    ("fields", "hostname", "line"),
    [
        pytest.param({}, "p", "{address}\tp\n", id="its name"),
        pytest.param({"hostname": "h"}, "h", "{address}\th\n", id="a hostname"),
        pytest.param(
            {"hostname": "h", "subdomain": "job"},
            "h",
            "{address}\th.job.team.svc.cluster.local\th\n",
            id="in a subdomain",
        ),
        pytest.param(
            {"hostname": "h", "subdomain": "job", "setHostnameAsFQDN": True},
            "h.job.team.svc.cluster.local",
            "{address}\th.job.team.svc.cluster.local\th\n",
            id="whole",
        ),
    ],
)
def test_what_a_pod_is_called(fields: Manifest, hostname: str, line: str) -> None:
    made = sandbox_spec(pod(**fields), FACTS, SETTINGS, HOST)
    assert made.hostname == hostname
    assert made.hosts.endswith(line)
    assert made.directory == "/data/pods/u"


def test_aliases_are_added_to_the_hosts() -> None:
    text = hosts_file(pod(hostAliases=[{"ip": "10.0.0.9", "hostnames": ["a", "b.c"]}]), FACTS, SETTINGS, HOST)
    assert text.endswith("\n# Entries added by HostAliases.\n10.0.0.9\ta\tb.c\n")


def test_the_processes_of_a_pod_are_limited_to_half_of_those_of_the_host() -> None:
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert sandbox_spec(pod(), FACTS, SETTINGS, HOST).pids_limit == min(most // 2, MOST_POD_PIDS)
    chosen = replace(SETTINGS, pod_pids_limit=7)
    assert sandbox_spec(pod(), FACTS, chosen, HOST).pids_limit == 7


def test_a_pod_in_the_hosts_network_has_the_hosts_names() -> None:
    made = sandbox_spec(pod(hostNetwork=True), FACTS, SETTINGS, HOST)
    assert made.hosts == "127.0.0.1 localhost\n"
    assert made.hostname == "local-0"
    assert made.host_network
    assert made.resolv_conf == "search corp.example\nnameserver 192.0.2.53\noptions timeout:2 ndots:1\n"


CLUSTER = "search team.svc.cluster.local svc.cluster.local cluster.local corp.example"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({}, f"{CLUSTER}\nnameserver 10.96.0.10\noptions ndots:5\n", id="the cluster's"),
        pytest.param(
            {"dnsPolicy": "Default"},
            "search corp.example\nnameserver 192.0.2.53\noptions timeout:2 ndots:1\n",
            id="the host's",
        ),
        pytest.param({"dnsPolicy": "None"}, "", id="none"),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["x"]}},
            "search x\nnameserver 1.2.3.4\n",
            id="its own",
        ),
        pytest.param(
            {
                "dnsConfig": {
                    "nameservers": ["1.2.3.4"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
                }
            },
            f"{CLUSTER}\nnameserver 10.96.0.10\nnameserver 1.2.3.4\noptions ndots:2 edns0\n",
            id="the cluster's and its own",
        ),
        pytest.param(
            {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True},
            f"{CLUSTER}\nnameserver 10.96.0.10\noptions ndots:5\n",
            id="the cluster's in the host's network",
        ),
    ],
)
def test_how_a_pod_resolves_names(fields: Manifest, text: str) -> None:
    assert resolv_conf(pod(**fields), SETTINGS, HOST) == text


def probe_started(
    requests: Manifest | None = None, limits: Manifest | None = None, **fields: Any
) -> Manifest:
    return container(resources={"requests": requests or {}, "limits": limits or {}}, **fields)


def test_a_pod_asks_for_what_runs_together_or_for_the_worst_moment_of_its_start() -> None:
    asks = spec(
        probe_started({"cpu": "500m", "memory": "1Gi"}),
        probe_started({"cpu": "1"}),
        initContainers=[
            probe_started({"cpu": "250m"}, restartPolicy="Always"),
            probe_started({"cpu": "4", "memory": "512Mi"}),
        ],
        overhead={"memory": "1Ki"},
    )
    assert totals(asks, "requests") == {"cpu": 4250.0, "memory": float((1 << 30) + 1024)}


def test_a_pod_is_limited_only_when_all_its_containers_are() -> None:
    limited = probe_started(limits={"cpu": "1", "memory": "1Gi"})
    assert pod_limit(spec(limited, limited), "cpu") == 2000.0
    assert pod_limit(spec(limited, probe_started()), "cpu") == 0.0
    assert pod_limit(spec(probe_started(), resources={"limits": {"cpu": "3"}}), "cpu") == 3000.0


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        pytest.param({"cpu": "1"}, None, id="it fits"),
        pytest.param({"cpu": "3001m"}, "OutOfcpu", id="cpu"),
        pytest.param({"memory": "5Gi"}, "OutOfmemory", id="memory"),
        pytest.param({"nvidia.com/gpu": "2"}, "OutOfnvidia.com/gpu", id="gpus"),
        pytest.param({"example.com/other": "2"}, None, id="what the node does not know"),
    ],
)
def test_whether_a_pod_fits(requests: Manifest, reason: str | None) -> None:
    asks = {"spec": spec(probe_started(requests))}
    free = {"cpu": "4", "memory": "4Gi", "pods": "3", "nvidia.com/gpu": "1"}
    found = check_fit(asks, [{"cpu": 1000.0}], free)
    assert (found.reason if found else None) == reason
    failure = check_fit(asks, [{}, {}, {}], free)
    assert failure is not None
    assert failure.message == "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"


@pytest.mark.parametrize(
    ("shared", "own", "identity"),
    [
        pytest.param({}, {}, Identity(), id="no user"),
        pytest.param(
            {"runAsUser": 1, "runAsGroup": 2, "supplementalGroups": [3], "fsGroup": 4},
            {},
            Identity(1, 2, (3, 4)),
            id="the pod's",
        ),
        pytest.param({"runAsUser": 1}, {"runAsUser": 5}, Identity(5), id="the container's"),
        pytest.param({"runAsNonRoot": True}, {"runAsUser": 5}, Identity(5), id="not root"),
        pytest.param({"runAsNonRoot": True}, {"runAsNonRoot": False}, Identity(), id="root after all"),
    ],
)
def test_whom_a_container_runs_as(shared: Manifest, own: Manifest, identity: Identity) -> None:
    assert identity_of(pod(securityContext=shared), container(securityContext=own), 0) == identity


@pytest.mark.parametrize(
    ("own", "default", "message"),
    [
        pytest.param({"runAsUser": 0}, 1000, "container's runAsUser breaks non-root policy", id="named"),
        pytest.param({}, 0, "container has runAsNonRoot and image will run as root", id="by default"),
    ],
)
def test_root_is_rejected(own: Manifest, default: int, message: str) -> None:
    with pytest.raises(Failure, match=message) as error:
        identity_of(pod(), container(securityContext={**own, "runAsNonRoot": True}), default)
    assert error.value.reason == "CreateContainerConfigError"


def test_what_a_container_may_do() -> None:
    own = {
        "privileged": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    }
    made = security_of(pod(), container(securityContext=own))
    assert (made.privileged, made.read_only_root, made.no_new_privileges) == (True, True, True)
    assert (made.add_capabilities, made.drop_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert not security_of(pod(), container()).no_new_privileges


@pytest.mark.parametrize(
    ("shared", "own", "expected"),
    [
        (None, None, (False, False)),
        ({"type": "RuntimeDefault"}, None, (True, False)),
        (None, {"type": "RuntimeDefault"}, (True, False)),
        ({"type": "RuntimeDefault"}, {"type": "Unconfined"}, (False, True)),
    ],
)
def test_the_seccomp_profile_of_a_container_overrides_that_of_its_pod(
    shared: Manifest | None, own: Manifest | None, expected: tuple[bool, bool]
) -> None:
    made = security_of(
        pod(securityContext={"seccompProfile": shared}), container(securityContext={"seccompProfile": own})
    )
    assert (made.default_seccomp, made.no_seccomp) == expected


def test_a_seccomp_profile_of_the_host_is_a_clear_error() -> None:
    profile = {"type": "Localhost", "localhostProfile": "mine.json"}
    with pytest.raises(Failure) as caught:
        security_of(pod(securityContext={"seccompProfile": profile}), container())
    assert caught.value.reason == "CreateContainerConfigError"
    assert caught.value.message.startswith('seccompProfile Localhost ("mine.json") of container')
    assert "use RuntimeDefault or Unconfined" in caught.value.message


@pytest.mark.parametrize(
    ("file", "log", "policy", "failed", "message"),
    [
        pytest.param("bye", "", "File", True, "bye", id="what it wrote"),
        pytest.param("x" * 5000, "", "File", False, "x" * 4096, id="cut"),
        pytest.param("", "t stdout F one\nt stderr F two\n", "File", True, "", id="nothing"),
        pytest.param(
            "",
            "t stdout F one\nt stderr P tw\nt stderr F o\n",
            "FallbackToLogsOnError",
            True,
            "one\ntwo\n",
            id="log",
        ),
        pytest.param("", "t stdout F one\n", "FallbackToLogsOnError", False, "", id="it went well"),
    ],
)
def test_termination_message(
    tmp_path: Path, file: str, log: str, policy: str, failed: bool, message: str
) -> None:
    (tmp_path / "0.termination").write_text(file)
    (tmp_path / "0.log").write_text(log)
    own = container(terminationMessagePolicy=policy)
    assert termination_message(own, tmp_path / "0.termination", tmp_path / "0.log", failed=failed) == message


def test_the_fallback_message_is_the_end_of_the_log(tmp_path: Path) -> None:
    own = container(terminationMessagePolicy="FallbackToLogsOnError")
    log = tmp_path / "0.log"
    log.write_text("".join(f"t stdout F line {number}\n" for number in range(9000)))
    message = termination_message(own, tmp_path / "none", log, failed=True)
    assert message.splitlines() == [f"line {number}" for number in range(8920, 9000)]


@pytest.mark.parametrize("kind", ["a pipe", "a link", "a directory", "nothing"])
def test_a_message_file_that_is_no_regular_file_is_ignored(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "0.termination"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to("/etc/hostname")
    elif kind == "a directory":
        path.mkdir()
    assert termination_message(container(), path, path, failed=True) == ""


def test_a_machine_is_shared_out_among_its_nodes() -> None:
    machine = replace(MACHINE, gpus=("a", "b", "c"))
    first, second = local_nodes(machine, KubeletOptions(Path("/d"), nodes=2)).values()
    assert (first.name, second.name) == ("local-0", "local-1")
    assert first.capacity()["cpu"] == "2"
    assert first.capacity()["memory"] == "4Gi"
    assert first.allocatable()["memory"] == "4046Mi"
    assert (first.gpus, second.gpus) == (("a", "c"), ("b",))
    assert first.capacity()["nvidia.com/gpu"] == "2"
    assert first.capacity()["pods"] == "110"


def test_this_machine_has_something(tmp_path: Path) -> None:
    machine = read_machine_info(tmp_path, fake_gpus=2)
    assert machine.millicores >= 100
    assert machine.memory > 64 << 20
    assert machine.storage > 0
    assert machine.gpus == ("0", "1")
    assert machine.kernel
    assert node_pressures(tmp_path) <= {"MemoryPressure", "DiskPressure", "PIDPressure"}


def test_gpus_are_read_from_a_listing() -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa-bbbb)\n"
        "  MIG 1g.5gb Device 0: (UUID: MIG-cccc)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-dddd)\n"
    )
    assert parse_gpu_list(text) == ("GPU-aaaa-bbbb", "GPU-dddd")


def test_what_is_remembered_survives_and_rubbish_does_not(tmp_path: Path) -> None:
    kept = PodCheckpoint({"c": (10.0, 20.0)}, {"c": ("0", "1")})
    save(tmp_path, kept)
    assert load(tmp_path) == kept
    (tmp_path / "agent.json").write_text('{"backOffs": 3}')
    assert load(tmp_path) == PodCheckpoint()


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


async def test_the_container_spec_is_complete() -> None:
    async with bench() as it:
        own = container(
            command=["run", "$(WORD)"],
            args=["more"],
            env=[{"name": "WORD", "value": "hi"}],
            workingDir="/w",
            tty=True,
            stdin=True,
            resources={"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "64Mi"}},
            securityContext={"runAsUser": 7, "capabilities": {"drop": ["ALL"]}},
            terminationMessagePath="/tmp/last",
        )
        made = await it.create(containers=[own], hostname="h", subdomain="s")
        uid = made["metadata"]["uid"]
        started = it.runtime.starts[0]
        assert started.command == ("run", "hi", "more")
        assert started.environment["WORD"] == "hi"
        assert started.environment["HOSTNAME"] == "h"
        assert (started.working_directory, started.tty, started.stdin) == ("/w", True, True)
        assert (started.cpu_request, started.cpu_limit, started.memory_limit) == (0.5, 1.0, 64 << 20)
        assert started.identity.user == 7
        assert started.security.drop_capabilities == ("ALL",)
        assert started.log_path == str(it.options.log_path(uid, "c", 0))
        message_path = it.options.termination_path(uid, "c", 0)
        assert [(mount.source, mount.target) for mount in started.mounts] == [
            (str(message_path), "/tmp/last")
        ]
        assert message_path.stat().st_mode & 0o777 == 0o666
        box = it.runtime.sandboxes[uid]
        assert (box.cpu_limit, box.memory_limit) == (1.0, 64 << 20)


async def test_only_the_latest_two_logs_are_kept() -> None:
    async with bench() as it:
        made = await it.create()
        uid = made["metadata"]["uid"]
        for attempt in range(3):
            it.options.log_path(uid, "c", attempt).write_text("x")
            Path(f"{it.options.log_path(uid, 'c', attempt)}.1").write_text("older")
            await it.end("c", 1)
            await it.pass_time(25, step=5)
        kept = sorted(path.name for path in it.options.log_path(uid, "c", 0).parent.iterdir())
        assert kept == ["2.log", "2.log.1", "2.termination", "3.termination"]


def test_a_name_server_on_the_hosts_loopback_address_is_asked_by_the_clusters() -> None:
    stub = HostFiles("", "nameserver 127.0.0.53\nnameserver 192.0.2.53\n")
    text = resolv_conf(pod(dnsPolicy="Default"), SETTINGS, stub)
    assert text == "nameserver 10.96.0.10\nnameserver 192.0.2.53\n"
    assert resolv_conf(pod(dnsPolicy="Default", hostNetwork=True), SETTINGS, stub) == (
        "nameserver 127.0.0.53\nnameserver 192.0.2.53\n"
    )

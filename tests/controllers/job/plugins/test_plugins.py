"""What each plugin does to a job's pods and wants beside them."""

import base64
import json
import subprocess
import time
from typing import Any

import pytest

from tests.controllers.job.world import (
    CountedKeys,
    command,
    controller,
    job,
    policy,
    running,
    submit,
    task,
    world,
)
from volcano.controllers.job.plugins.arguments import read_arguments
from volcano.controllers.job.plugins.keys import KeyPool, generate_key_pair
from volcano.controllers.job.plugins.loading import built_in_plugins, load_plugins, plugin_class
from volcano.controllers.job.plugins.plugin import KeyPair, PluginError
from volcano.controllers.job.pods import pod_maker
from volcano.controllers.job.spec import parse_job
from volcano.controllers.job.status import Status
from volcano.kube.api.kinds import CONFIG_MAP, NETWORK_POLICY, SECRET, SERVICE
from volcano.kube.api.manifest import Manifest, annotations_of

INIT = {"initContainers": [{"name": "init"}]}


def pod(manifest: Manifest, name: str, index: int = 0) -> Manifest:
    """The pod that a job's plugins make."""
    manifest = {**manifest, "metadata": {"namespace": "ns", "uid": "u", **manifest["metadata"]}}
    parsed = parse_job(manifest, scheduler_name="volcano")
    found = parsed.task(name)
    assert found is not None
    return pod_maker(parsed, found, Status(), load_plugins(parsed.plugins or {}, CountedKeys()))(index)


def env(container: Manifest) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env") or ()}


def containers(made: Manifest) -> list[Manifest]:
    return [*made["spec"]["containers"], *made["spec"].get("initContainers", ())]


def test_every_container_knows_its_pods_number_and_how_many_there_are() -> None:
    made = pod(job(tasks=[task(replicas=3, spec=INIT)], plugins={"env": []}), "main", 2)
    for container in containers(made):
        assert env(container) == {
            "VK_TASK_INDEX": "2",
            "VC_TASK_INDEX": "2",
            "VK_TASK_NUM": "3",
            "VC_TASK_NUM": "3",
        }


def test_pods_find_each_other_by_name() -> None:
    cluster = world()
    tasks = [task("master", 1), task("big-worker", 2, spec=INIT)]
    submit(cluster, job(tasks=tasks, plugins={"svc": []}))
    cluster.admit()
    config = cluster.find(CONFIG_MAP, "j-svc")
    assert config is not None
    assert config["data"] == {
        "master.host": "j-master-0.j",
        "VC_MASTER_HOSTS": "j-master-0.j",
        "VC_MASTER_NUM": "1",
        "big_worker.host": "j-big-worker-0.j\nj-big-worker-1.j",
        "VC_BIG_WORKER_HOSTS": "j-big-worker-0.j,j-big-worker-1.j",
        "VC_BIG_WORKER_NUM": "2",
    }
    service = cluster.find(SERVICE, "j")
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    own = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "default"}
    assert service["spec"]["selector"] == own
    rules = cluster.find(NETWORK_POLICY, "j")
    assert rules is not None
    assert rules["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}]
    made = next(p for p in cluster.pods() if p["metadata"]["name"] == "j-big-worker-1")
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("j-big-worker-1", "j")
    assert {"name": "j-svc", "configMap": {"name": "j-svc"}} in made["spec"]["volumes"]
    for container in containers(made):
        found = env(container)
        first_hosts = {"VC_MASTER_HOST": "j-master-0.j", "VC_BIG_WORKER_HOST": "j-big-worker-0.j"}
        listed = {key for key in config["data"] if key.startswith("VC_")}
        assert set(found) == listed | first_hosts.keys()
        assert found["VC_MASTER_HOSTS"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_MASTER_HOSTS"}}
        assert {key: found[key] for key in first_hosts} == first_hosts
        assert {"name": "j-svc", "mountPath": "/etc/volcano"} in container["volumeMounts"]


def test_the_network_policy_can_be_left_out() -> None:
    cluster = world()
    submit(cluster, job(plugins={"svc": ["--disable-network-policy=true", "--publish-not-ready-addresses"]}))
    assert cluster.find(NETWORK_POLICY, "j") is None
    service = cluster.find(SERVICE, "j")
    assert service is not None
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_hosts_need_not_be_put_into_the_environment() -> None:
    made = pod(job(plugins={"svc": ["--inject-hosts-env=false"]}), "main")
    assert env(made["spec"]["containers"][0]) == {}


def test_a_fixed_host_name_is_the_only_address() -> None:
    tasks = [task("a", 3, spec={"hostname": "fixed", "subdomain": "sub"}), task("b", 1)]
    cluster = world()
    submit(cluster, job(tasks=tasks, plugins={"svc": []}))
    config = cluster.find(CONFIG_MAP, "j-svc")
    assert config is not None
    assert (config["data"]["VC_A_HOSTS"], config["data"]["VC_A_NUM"]) == ("fixed.sub", "1")


def secret(cluster: Any) -> dict[str, str]:
    found = cluster.find(SECRET, "j-ssh")
    assert found is not None
    return {name: base64.b64decode(value).decode() for name, value in found["data"].items()}


def test_an_argument_that_is_not_known_is_told_and_does_no_harm() -> None:
    cluster = world()
    submit(cluster, job(plugins={"ssh": ["--no-root"]}))
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert secret(cluster)["id_rsa"] == "private-1"
    (event,) = cluster.events("PluginError")
    assert "unknown argument '--no-root'" in event["message"]
    volume = next(v for v in cluster.pods()[0]["spec"]["volumes"] if v["name"] == "j-ssh")
    assert volume["secret"]["defaultMode"] == 0o600
    assert {"key": "config", "path": ".ssh/config"} in volume["secret"]["items"]
    (container,) = cluster.pods()[0]["spec"]["containers"]
    assert {"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"} in container["volumeMounts"]


@pytest.mark.parametrize(("given", "port"), [("2026", 2026), ("-10", 22), ("70000", 22)])
def test_ssh_learns_every_host_and_its_port(given: str, port: int) -> None:
    cluster = world()
    submit(cluster, job(plugins={"ssh": [f"--ssh-port={given}"]}))
    assert secret(cluster)["config"] == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        f"Host j-main-0\n  HostName j-main-0.j\n  Port {port}\n"
        f"Host j-main-1\n  HostName j-main-1.j\n  Port {port}\n"
    )


def test_ssh_keys_that_are_given_are_the_ones_that_are_used() -> None:
    cluster = world()
    arguments = ["--ssh-private-key=mine", "--ssh-public-key=open", "--ssh-key-file-path=/home/me/.ssh"]
    submit(cluster, job(plugins={"ssh": arguments}))
    cluster.admit()
    found = secret(cluster)
    assert (found["id_rsa"], found["id_rsa.pub"], found["authorized_keys"]) == ("mine", "open", "open")
    volume = next(v for v in cluster.pods()[0]["spec"]["volumes"] if v["name"] == "j-ssh")
    assert volume["secret"]["defaultMode"] == 0o644


def test_ssh_keys_are_made_once_for_a_job_whatever_becomes_of_it() -> None:
    keys = CountedKeys()
    cluster = world()
    cluster.kill()
    cluster.start(controller(keys=keys))
    submit(cluster, job(plugins={"ssh": []}, policies=[policy("PodFailed", "RestartJob")]))
    cluster.settle()
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.settle()
    command(cluster, "AbortJob")
    cluster.settle()
    cluster.kill()
    cluster.start(controller(keys=keys))
    command(cluster, "ResumeJob")
    cluster.settle()
    assert (cluster.phase("j"), keys.made, secret(cluster)["id_rsa"]) == ("Running", 1, "private-1")


def test_made_keys_are_what_ssh_reads(tmp_path: Any) -> None:
    pair = generate_key_pair()
    assert pair.private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert pair.public.startswith("ssh-rsa AAAA")
    path = tmp_path / "key"
    path.write_text(pair.private)
    path.chmod(0o600)
    try:
        shown = subprocess.run(
            ["ssh-keygen", "-y", "-f", str(path)], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("no ssh-keygen here")
    assert shown.stdout.split()[:2] == pair.public.split()[:2]


def test_a_job_waits_for_its_key_pair_and_others_do_not() -> None:
    made: list[KeyPair] = []
    cluster = world()
    cluster.kill()
    cluster.start(controller(keys=lambda: made.pop() if made else None))
    submit(cluster, job("s", plugins={"ssh": []}))
    submit(cluster, job())
    cluster.advance(1)
    cluster.settle()
    assert (cluster.phase("s"), cluster.phase("j")) == ("Pending", "Running")
    assert cluster.group("s") is None
    made.append(KeyPair("late", "public"))
    cluster.advance(1)
    cluster.settle()
    assert cluster.phase("s") == "Running"


def test_key_pairs_are_made_ahead_and_each_is_given_once() -> None:
    pool = KeyPool(store=2)
    given: list[KeyPair] = []
    deadline = time.monotonic() + 60
    while len(given) < 2 and time.monotonic() < deadline:
        pair = pool()
        if pair is None:
            time.sleep(0.01)
        else:
            given.append(pair)
    assert len({pair.private for pair in given}) == 2


def test_tensorflow_tells_each_pod_the_whole_cluster() -> None:
    tasks = [task("ps", 1), task("worker", 2), task("chief", 1)]
    made = pod(job(tasks=tasks, plugins={"tensorflow": []}), "ps")
    text = env(made["spec"]["containers"][0])["TF_CONFIG"]
    assert " " not in text
    assert json.loads(text) == {
        "cluster": {
            "ps": ["j-ps-0.j:2222"],
            "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"],
            "chief": ["j-chief-0.j:2222"],
        },
        "task": {"type": "ps", "index": 0},
    }
    renamed = job(tasks=[task("a", 1), task("b", 2)], plugins={"tensorflow": ["--worker=b", "--port=1"]})
    config = json.loads(env(pod(renamed, "b", 1)["spec"]["containers"][0])["TF_CONFIG"])
    assert config == {
        "cluster": {"worker": ["j-b-0.j:1", "j-b-1.j:1"]},
        "task": {"type": "worker", "index": 1},
    }
    assert "TF_CONFIG" not in env(
        pod(job(tasks=[task("ps", 1)], plugins={"tensorflow": []}), "ps")["spec"]["containers"][0]
    )


def test_the_mpi_master_knows_its_workers() -> None:
    manifest = job(tasks=[task("master", 1, spec=INIT), task("worker", 2)], plugins={"mpi": ["--port=5000"]})
    for container in containers(pod(manifest, "master")):
        assert env(container)["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
        assert container["ports"] == [{"name": "mpijob-port", "containerPort": 5000, "protocol": "TCP"}]
    (worker,) = containers(pod(manifest, "worker"))
    assert "MPI_HOST" not in env(worker)
    assert worker["ports"][0]["containerPort"] == 5000


def test_an_mpi_master_without_workers_has_an_empty_list() -> None:
    manifest = job(tasks=[task("master", 1), task("worker", 0)], plugins={"mpi": []})
    assert env(containers(pod(manifest, "master"))[0])["MPI_HOST"] == ""
    alone = job(tasks=[task("master", 1)], plugins={"mpi": []})
    assert "ports" not in containers(pod(alone, "master"))[0]


@pytest.mark.parametrize(
    ("name", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")]
)
def test_every_pytorch_process_knows_its_rank(name: str, index: int, rank: str) -> None:
    manifest = job(tasks=[task("master", 1), task("worker", 2)], plugins={"pytorch": []})
    (container,) = containers(pod(manifest, name, index))
    found = env(container)
    assert {key: found[key] for key in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")} == {
        "MASTER_ADDR": "j-master-0.j",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "3",
        "RANK": rank,
    }
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"}]


def test_a_port_that_is_open_is_not_opened_again() -> None:
    ports = [{"name": "mine", "containerPort": 23456}]
    tasks = [task("master", 1, spec={"containers": [{"name": "m", "ports": ports}]})]
    assert containers(pod(job(tasks=tasks, plugins={"pytorch": []}), "master"))[0]["ports"] == ports


def test_pytorch_workers_can_wait_for_their_master() -> None:
    arguments = ["--wait-master-enabled", "--wait-master-timeout=7", "--wait-master-image=img", "--port=99"]
    manifest = job(tasks=[task("master", 1), task("worker", 1)], plugins={"pytorch": arguments})
    (waiting,) = pod(manifest, "worker")["spec"]["initContainers"]
    assert (waiting["name"], waiting["image"]) == ("wait-for-master", "img")
    assert waiting["command"][:2] == ["sh", "-c"]
    assert "j-master-0.j" in waiting["command"][2]


def test_a_task_named_task_keeps_the_variables_of_both_plugins() -> None:
    tasks = [task("task", 2), task("other", 3)]
    made = pod(job(tasks=tasks, plugins={"svc": [], "env": []}), "other")
    (container,) = containers(made)
    names = [entry["name"] for entry in container["env"]]
    assert len(names) == len(set(names))
    found = env(container)
    assert found["VC_TASK_NUM"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_TASK_NUM"}}
    assert (found["VK_TASK_NUM"], found["VC_TASK_INDEX"]) == ("3", "0")


def test_a_first_host_that_the_template_sets_is_kept() -> None:
    own = [{"name": "main", "image": "busybox", "env": [{"name": "VC_MAIN_HOST", "value": "mine"}]}]
    made = pod(job(tasks=[task(spec={"containers": own})], plugins={"svc": []}), "main")
    assert env(made["spec"]["containers"][0])["VC_MAIN_HOST"] == "mine"


def test_pytorch_without_a_master_changes_nothing() -> None:
    manifest = job(tasks=[task("worker", 2)], plugins={"pytorch": [], "svc": ["--inject-hosts-env=false"]})
    (container,) = containers(pod(manifest, "worker"))
    assert (env(container), "ports" in container) == ({}, False)


def test_ray_starts_a_head_and_its_workers() -> None:
    def named(name: str) -> Manifest:
        return task(name, 1, spec={"containers": [{"name": name}, {"name": "other", "command": ["x"]}]})

    cluster = world()
    submit(cluster, job(tasks=[named("head"), named("worker")], plugins={"ray": ["--dashboardPort=1"]}))
    cluster.admit()
    service = cluster.find(SERVICE, "j-head-svc")
    assert service is not None
    assert service["spec"]["selector"]["volcano.sh/task-spec"] == "head"
    assert [(p["name"], p["port"], p["targetPort"]) for p in service["spec"]["ports"]] == [
        ("gcs", 6379, "gcs"),
        ("dashboard", 1, "dashboard"),
        ("client-server", 10001, "client-server"),
    ]
    head, worker = (
        p["spec"]["containers"] for p in sorted(cluster.pods(), key=lambda p: p["metadata"]["name"])
    )
    assert head[0]["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=1 "
        "--ray-client-server-port=10001",
    ]
    assert [port["name"] for port in head[0]["ports"]] == ["gcs", "dashboard", "client-server"]
    assert worker[0]["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]
    assert head[1]["command"] == worker[1]["command"] == ["x"]


def test_ray_without_a_head_is_told_on_the_job() -> None:
    cluster = world()
    submit(cluster, job(plugins={"ray": []}))
    cluster.settle()
    assert cluster.pods() == []
    assert "no task 'head'" in cluster.job("j")["status"]["state"]["message"]


def test_hccl_ranks_count_masters_first() -> None:
    manifest = job(tasks=[task("master", 2), task("worker", 2), task("x", 1)], plugins={"hcclrank": []})
    assert annotations_of(pod(manifest, "worker", 1))["hccl/rankIndex"] == "3"
    assert annotations_of(pod(manifest, "master", 1))["hccl/rankIndex"] == "1"
    assert "hccl/rankIndex" not in annotations_of(pod(manifest, "x"))
    ranked = task("worker", 1, spec={"containers": [{"name": "w", "env": [{"name": "RANK", "value": "7"}]}]})
    assert (
        annotations_of(pod(job(tasks=[ranked], plugins={"hcclrank": []}), "worker"))["hccl/rankIndex"] == "7"
    )
    given = {**task("worker", 1)}
    given["template"] = {**given["template"], "metadata": {"annotations": {"hccl/rankIndex": "9"}}}
    assert (
        annotations_of(pod(job(tasks=[given], plugins={"hcclrank": []}), "worker"))["hccl/rankIndex"] == "9"
    )


def test_hccl_ranks_follow_pytorchs_whatever_order_the_job_names_them_in() -> None:
    manifest = job(tasks=[task("master", 1), task("worker", 2)], plugins={"hcclrank": [], "pytorch": []})
    assert annotations_of(pod(manifest, "worker", 1))["hccl/rankIndex"] == "2"


def test_a_job_with_an_unknown_plugin_waits_and_says_why_while_others_run() -> None:
    cluster = world()
    submit(cluster, job("odd", plugins={"nosuch": []}))
    submit(cluster, job())
    cluster.settle()
    assert (cluster.phase("j"), cluster.phase("odd")) == ("Running", "Pending")
    state = cluster.job("odd")["status"]["state"]
    assert state["reason"] == "PluginError"
    assert "no job plugin 'nosuch'; choose from svc, ssh" in state["message"]
    assert cluster.pods("odd") == []
    (event,) = cluster.events("PluginError")
    assert event["involvedObject"]["name"] == "odd"
    due = cluster.controllers[0].next_due()
    assert due is not None
    assert due > cluster.now().monotonic


@pytest.mark.parametrize("dot", [":", "."])
def test_a_plugin_from_outside_is_loaded_by_its_dotted_name(dot: str) -> None:
    name = f"tests.controllers.job.plugins.outside{dot}Greet"
    made = pod(job(plugins={name: ["--word=hey"]}), "main", 1)
    assert annotations_of(made)["greeting"] == "hey 1"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.at_all:X", "cannot be loaded"),
        ("nowhere.at_all.X", "cannot be loaded"),
        ("tests.controllers.job.plugins.outside:Missing", "has no plugin class Missing"),
        ("tests.controllers.job.plugins.outside:NotAPlugin", "has no plugin class NotAPlugin"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_named_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        plugin_class(name)


def test_a_plugin_that_fails_stops_its_job_only_and_is_told() -> None:
    cluster = world()
    submit(cluster, job("odd", plugins={"tests.controllers.job.plugins.outside:Broken": []}))
    submit(cluster, job())
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert cluster.pods("odd") == []
    assert "nothing here" in cluster.job("odd")["status"]["state"]["message"]


@pytest.mark.parametrize(
    ("arguments", "values", "complaint"),
    [
        (["--port=1", "-name=x", "--on"], {"port": 1, "name": "x", "on": True}, ""),
        (["--port", "2", "--on=false"], {"port": 2, "name": "n", "on": False}, ""),
        (
            ["--port=1", "--bad=2", "--name=x"],
            {"port": 1, "name": "n", "on": False},
            "unknown argument '--bad'",
        ),
        (["--port=x", "--name=x"], {"port": 0, "name": "n", "on": False}, "must be a whole number"),
        (["--on=maybe"], {"port": 0, "name": "n", "on": False}, "must be true or false"),
        (["--name"], {"port": 0, "name": "n", "on": False}, "needs a value"),
        (["port=1"], {"port": 0, "name": "n", "on": False}, "unknown argument 'port'"),
    ],
)
def test_arguments_are_read_up_to_the_first_that_makes_no_sense(
    arguments: list[str], values: dict[str, Any], complaint: str
) -> None:
    found = read_arguments("p", {"port": 0, "name": "n", "on": False}, arguments)
    assert found.values == values
    assert complaint in found.error
    assert bool(found.error) is bool(complaint)


@pytest.mark.parametrize("name", built_in_plugins())
def test_every_built_in_plugin_can_be_had_and_leaves_jobs_it_does_not_fit_standing(name: str) -> None:
    plugin_class(name)
    cluster = running(job(tasks=[task("a", 1), task("b", 1)], plugins={name: []}))
    assert cluster.phase("j") == ("Pending" if name == "ray" else "Running")


def test_what_plugins_made_is_recorded_and_goes_when_the_job_has_finished() -> None:
    cluster = running(job(plugins={"svc": [], "ssh": [], "hcclrank": []}))
    assert cluster.job("j")["status"]["controlledResources"] == {"plugin-svc": "svc", "plugin-ssh": "ssh"}
    cluster.finish("j-main-0", "j-main-1")
    cluster.settle()
    assert not any(cluster.objects[kind] for kind in (SERVICE, CONFIG_MAP, SECRET, NETWORK_POLICY))
    assert "controlledResources" not in cluster.job("j")["status"]

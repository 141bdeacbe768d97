"""A gang on this host, on every runtime and as every possible user: what its pods see, and what not.

The pods of one run find out everything at once and tell it as JSON in their logs.
"""

import functools
import json
import re
from typing import Any

import pytest

from tests.embedded.program import EVERY, Setting, job_of, pod_of, skip_unless_possible, used
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.slow

WORKERS = 3
LOOK = """
import json, os, pathlib, socket, ssl, sys, time, urllib.request

root = os.environ.get("VOLCANO_ROOT", "")
index, job = int(os.environ["VC_TASK_INDEX"]), "gang"


def address(name):
    for _ in range(100):
        try:
            return sorted({found[4][0] for found in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError:
            time.sleep(0.05)
    return []


def tried(what):
    try:
        return what()
    except OSError as error:
        return f"refused: {error.strerror or error}"


def write(path):
    with open(path, "w") as file:
        file.write("was here")
    return "written"


def admins_files():
    # A walk over all that is here but the kernel's own files and the host's programs.
    for folder, folders, files in os.walk("/"):
        if folder == "/":
            folders[:] = [each for each in folders if each not in ("proc", "sys", "usr", "opt", "nix")]
        folders[:] = [each for each in folders if each != "site-packages"]
        yield from (os.path.join(folder, each) for each in files if each in ("admin.token", "signing.key"))


def ask_api():
    # In plain mode the path below is replaced by where the volume is.
    mounted = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
    host = "kubernetes.default.svc" if not root else os.environ["KUBERNETES_SERVICE_HOST"]
    request = urllib.request.Request(
        f"https://{host}:{os.environ['KUBERNETES_SERVICE_PORT']}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        data=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode(),
        headers={"Authorization": f"Bearer {(mounted / 'token').read_text()}", "Content-Type": "application/json"},
    )
    trust = ssl.create_default_context(cafile=str(mounted / "ca.crt"))
    with urllib.request.urlopen(request, timeout=20, context=trust) as answer:
        return json.load(answer)["status"]["userInfo"]["username"]


def meet():
    # Worker 0 is found by name and is told their addresses by all others.
    if index == 0:
        with socket.create_server(("", 23400)) as server:
            server.settimeout(30)
            heard = []
            for _ in range(WORKERS - 1):
                peer, (source, _) = server.accept()
                with peer:
                    heard.append([peer.recv(100).decode(), source])
            return sorted(heard)
    for _ in range(200):
        try:
            with socket.create_connection((f"worker-0.{job}", 23400), timeout=10) as peer:
                peer.sendall(socket.gethostname().encode())
                return "met"
        except OSError:
            time.sleep(0.05)
    return "not met"


facts = {
    "index": index,
    "hostname": socket.gethostname(),
    "pid": os.getpid(),
    "leads": os.getpid() == os.getpgid(0),
    "pids": len([each for each in os.listdir("/proc") if each.isdigit()]),
    "user": os.getuid(),
    "api": tried(ask_api),
    "temporary": tried(lambda: write(os.path.join(os.environ.get("TMPDIR", "/tmp"), "own"))),
}
if not root:
    facts |= {
        "met": meet(),
        "own": address(socket.gethostname()),
        "by pod": address(f"{job}-worker-1.{job}"),
        "by task": address(f"worker-1.{job}"),
        "service": address("web"),
        "usr": tried(lambda: write("/usr/was-here")),
        "etc": tried(lambda: write("/etc/was-here")),
        "home": os.path.exists(HOME),
        "admin": list(admins_files()),
    }
print("FACTS " + json.dumps(facts), flush=True)
if not root:
    time.sleep(2)  # so that the Service has all endpoints
"""


@pytest.fixture(params=EVERY, ids=str)
def setting(request: pytest.FixtureRequest) -> Setting:
    wanted: Setting = request.param
    return skip_unless_possible(wanted)


@pytest.fixture(params=[each for each in EVERY if each.isolated], ids=str)
def isolated(request: pytest.FixtureRequest) -> Setting:
    """Runtimes that give pods a root and a network of their own; what plain processes lack, an event says."""
    wanted: Setting = request.param
    return skip_unless_possible(wanted)


def gang(home: str) -> list[Manifest]:
    script = LOOK.replace("WORKERS", str(WORKERS)).replace("HOME", repr(home), 1)
    pod = pod_of("x", "python3", "-c", script)
    pod["metadata"]["labels"] = {"app": "gang"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "gang"}, "ports": [{"port": 80}]},
    }
    return [service, job_of("gang", WORKERS, pod, plugins={"env": [], "svc": []})]


@functools.cache
def told(setting: Setting) -> tuple[dict[str, Any], ...]:
    """What the pods of a gang say, one after the other; the run itself went well and left nothing."""
    with used(setting) as volcano:
        code, result, lines = volcano.follow(*gang(str(volcano.home)), timeout=100)
        assert code == 0, lines
        assert result["completed"] is True
        (job,) = result["jobs"]
        assert job["pods"] == {"Succeeded": WORKERS}
        assert "exitCode" not in job
    found = [json.loads(text) for text in re.findall(r"gang-worker-\d \| FACTS (.*)", lines)]
    assert len(found) == WORKERS, lines
    return tuple(sorted(found, key=lambda facts: facts["index"]))


def test_a_gang_runs_and_its_logs_are_shown(setting: Setting) -> None:
    assert [facts["index"] for facts in told(setting)] == [0, 1, 2]


def test_a_pod_asks_the_api_server_with_its_own_token(setting: Setting) -> None:
    assert {facts["api"] for facts in told(setting)} == {"system:serviceaccount:default:default"}


def test_a_pod_leads_a_group_of_processes_and_may_write_what_is_its_own(setting: Setting) -> None:
    assert all(facts["leads"] and facts["temporary"] == "written" for facts in told(setting))


def test_a_pod_is_a_machine_with_a_name_and_processes_of_its_own(isolated: Setting) -> None:
    for facts in told(isolated):
        assert facts["hostname"] == f"gang-worker-{facts['index']}"
        assert (facts["pid"], facts["pids"], facts["user"]) == (1, 1, 0)


def test_pods_find_each_other_by_the_names_that_jobs_use(isolated: Setting) -> None:
    workers = told(isolated)
    (second,) = workers[1]["own"]
    assert all(facts["by pod"] == facts["by task"] == [second] for facts in workers)
    others = [[facts["hostname"], facts["own"][0]] for facts in workers[1:]]
    assert workers[0]["met"] == sorted(others)
    assert [facts["met"] for facts in workers[1:]] == ["met"] * (WORKERS - 1)


def test_a_headless_service_is_its_pods(isolated: Setting) -> None:
    addresses = {facts["own"][0] for facts in told(isolated)}
    for facts in told(isolated):
        assert set(facts["service"]) <= addresses
        assert facts["service"]


def test_the_host_s_programs_cannot_be_changed_and_its_secrets_not_be_seen(isolated: Setting) -> None:
    for facts in told(isolated):
        assert facts["usr"].startswith("refused: ")
        assert facts["home"] is False
        assert facts["admin"] == []

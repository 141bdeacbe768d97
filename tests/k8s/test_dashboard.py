"""The dashboard on a real API server, with the chart's ServiceAccount: tokens, proxies, and what viewers get to see."""

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.installer.helm import NAMESPACE
from tests.installer.installation import Installation
from tests.k8s.control_plane import build, cluster
from tests.k8s.load import job
from tests.k8s.plain import JOBS, until
from tests.k8s.programs import ROOT, free_port, programs_on
from tools.installer.places import CHART
from volcano.base.clock import SystemClock
from volcano.dashboard.data.submission import new_job
from volcano.dashboard.viewer import connection_of, with_token
from volcano.kube.client.kubeconfig import load_client_config
from volcano.services.errors import ServiceError
from volcano.services.plan import plan_new

pytest.importorskip("nicegui", reason="the dashboard is not installed")
pytestmark = pytest.mark.k8s

NAME = "volcano-dashboard"
TEAMS = ("team-a", "team-b")
WITHIN = 60.0
PROXIED = {"X-Forwarded-User": "alice", "X-Forwarded-Groups": "guests"}


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that runs."""

    port: int

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, body = self.ask("GET", path, "", headers)
        return status, body

    def ask(self, method: str, path: str, body: str, headers: dict[str, str]) -> tuple[int, Any, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def log_in(self, token: str) -> str:
        """The cookie that a token is exchanged for; "" if it is rejected."""
        headers = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
        status, answer, _ = self.ask("POST", "/login", json.dumps({"token": token}), headers)
        return str(answer["Set-Cookie"]).partition(";")[0] if status == 200 else ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    directory = tmp_path_factory.mktemp("dashboard")
    running = cluster.start(directory / "control-plane", service_accounts=True)
    try:
        with programs_on(running, tmp_path_factory) as programs:
            found = Installation(running, directory, programs)
            values = {
                "custom": {"admission_enable": False, "scheduler_enable": False, "controller_enable": False},
                "dashboard": {"enabled": True, "auth": "proxy", "trusted_proxies": ["127.0.0.0/8"]},
            }
            (directory / "values.yaml").write_text(yaml.safe_dump(values))
            options = ("-n", NAMESPACE, "--create-namespace", f"--values={directory}/values.yaml")
            found.helm.run("install", "volcano", str(CHART), *options)
            for team in TEAMS:
                found.kubectl("create", "namespace", team)
                programs.api.create_persistently(JOBS.format(team), job(f"job-of-{team}", 1))
            found.kubectl("-n", "team-a", "create", "serviceaccount", "reader")
            kinds = "jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh,pods"
            found.kubectl(
                "-n", "team-a", "create", "role", "reader", "--verb=get,list,watch", f"--resource={kinds}"
            )
            subjects = ("--serviceaccount=team-a:reader", "--user=alice")
            found.kubectl("-n", "team-a", "create", "rolebinding", "reader", "--role=reader", *subjects)
            yield found
    finally:
        running.stop()


@contextmanager
def dashboard(installed: Installation, *more: str) -> Iterator[Served]:
    """The program of the Deployment, with its flags, on loopback and with the chart's ServiceAccount."""
    (container,) = installed.get("deployment", NAME)["spec"]["template"]["spec"]["containers"]
    flags = [each for each in container["args"] if not each.startswith(("--address", "--port"))]
    served = Served(free_port())
    command = [
        sys.executable, "-m", "volcano.cmd.volcano", *flags, f"--port={served.port}",
        "--kubeconfig", str(installed.kubeconfig(NAME)), *more,
    ]  # fmt: skip
    log = installed.directory / "dashboard.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)
    try:
        until(lambda: _answers(served), WITHIN, log.read_text)
        yield served
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(served: Served) -> bool:
    try:
        return served.get("/healthz") == (200, "ok\n")
    except OSError:
        return False


def page_with(served: Served, path: str, text: str, headers: dict[str, str]) -> str:
    """The page once it has the text: what is not known when it is sent, such as rights, follows by server push."""
    pages = [""]

    def found() -> bool:
        status, page = served.get(path, **headers)
        assert status == 200
        pages.append(page)
        return text in page

    until(found, WITHIN, lambda: pages[-1][-2000:])
    return pages[-1]


def test_viewers_with_a_token_see_what_it_allows(installed: Installation) -> None:
    token = installed.kubectl("-n", "team-a", "create", "token", "reader", "--duration=1h").strip()
    with dashboard(installed, "--auth=token") as served:
        assert served.get("/jobs")[0] == 401
        assert served.log_in("not-a-token") == ""
        cookie = served.log_in(token)
        assert cookie
        page = page_with(served, "/jobs", "job-of-team-a", {"Cookie": cookie})
        assert "job-of-team-b" not in page
        forbidden = "You may not create jobs.batch.volcano.sh in namespace default."
        page_with(served, "/submit", forbidden, {"Authorization": f"Bearer {token}"})


def test_a_preview_says_which_rights_it_needs(installed: Installation) -> None:
    token = installed.kubectl("-n", "team-a", "create", "token", "reader", "--duration=1h").strip()
    admin = load_client_config({}, kubeconfig=str(installed.cluster.kubeconfig))

    async def ask() -> None:
        session = connection_of(with_token(admin, token), SystemClock())
        try:
            await plan_new(session.client, session.clock, [new_job("team-a", "default")], namespace="team-a")
        finally:
            await session.close()

    with pytest.raises(ServiceError, match="a plan needs the objects that the scheduler reads"):
        asyncio.run(ask())


def test_users_whom_a_proxy_names_see_what_they_may_see(installed: Installation) -> None:
    with dashboard(installed) as served:
        assert served.get("/jobs")[0] == 401
        assert "job-of-team-b" not in page_with(served, "/jobs", "job-of-team-a", PROXIED)
        status, page = served.get("/jobs", **{"X-Forwarded-User": "stranger"})
        assert status == 200
        assert "job-of-team" not in page
        admin = {"X-Forwarded-User": "root", "X-Forwarded-Groups": "system:masters"}
        page_with(served, "/jobs", "job-of-team-b", admin)

"""Notifications of a job on a real API server: the program with its flags, and a real HTTP server as the target."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.conftest import started
from tests.k8s.plain import until
from tests.k8s.programs import ELECTION, Programs, programs_on

pytestmark = pytest.mark.k8s

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


class Target(BaseHTTPRequestHandler):
    """Keeps the events that are posted."""

    events: list[Any]

    def do_POST(self) -> None:
        self.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def events() -> Iterator[tuple[str, list[Any]]]:
    """Address of a target, and what it receives."""
    Target.events = []
    server = HTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", Target.events
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    for cluster in started(tmp_path_factory):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare()
            running.start("controllers", *ELECTION, "--notify-allow=127.0.0.0/8", "--notify-source=/real")
            running.start("scheduler", *ELECTION)
            running.start_nodes(1)
            running.wait_ready(1, webhook=False)
            yield running


def test_a_job_is_notified_of_and_the_record_is_on_the_job(
    programs: Programs, events: tuple[str, list[Any]]
) -> None:
    url, received = events
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"volcano.sh/sim-duration": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "notify", "annotations": {"volcano.sh/notify": url}},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "tasks": [{"name": "w", "replicas": 1, "template": template}],
        },
    }
    programs.api.create(JOBS, job)
    until(
        lambda: [event["type"] for event in received][-1:] == ["sh.volcano.job.completed"], 60, programs.logs
    )
    assert [event["type"] for event in received] == ["sh.volcano.job.running", "sh.volcano.job.completed"]
    assert received[0]["source"] == "/real/namespaces/default/jobs/notify"

    def recorded() -> bool:
        annotations = programs.api.get(f"{JOBS}/notify")["metadata"]["annotations"]
        return set(json.loads(annotations.get("volcano.sh/notified", "{}"))) == {"Running", "Completed"}

    until(recorded, 30, programs.logs)

"""Ray with the job plugin: a head, workers and a submitter."""

import urllib.error

import pytest
import yaml

from tests.embedded.program import Cluster, until, used
from tests.frameworks.examples import (
    EXAMPLES,
    WITHIN,
    completed,
    log_lines,
    needs,
    own_network,
    run,
    use_cache,
    without_one,
)
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.frameworks

SQUARES = "frameworks/ray/squares.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("ray")


def test_a_submitted_program_uses_every_worker_and_ends_the_job() -> None:
    total = sum(n * n for n in range(6000))
    assert log_lines(completed(SQUARES), "sum of squares.*") == [
        f"sum of squares: {total} from squares-worker-0 and squares-worker-1"
    ]


def test_the_program_fails_without_the_second_worker() -> None:
    shown = run(SQUARES, change=without_one("worker"))
    assert shown.returncode != 0, shown.stdout
    assert log_lines(shown.stdout, "AssertionError: only 1 of 2 workers have joined")
    assert not log_lines(shown.stdout, "sum of squares.*")


def test_the_job_server_is_reached_through_services_proxy_and_pods_proxy() -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / SQUARES).read_text()))
    without_one("submitter")(documents)  # the cluster stays
    with used(own_network()) as volcano:
        use_cache(volcano)
        cluster = Cluster(volcano)
        cluster.up()
        try:
            for document in documents:
                cluster.create(document)
            answers = [
                _answer(cluster, f"/api/v1/namespaces/default/{place}:8265/proxy/api/version")
                for place in ("services/squares-head-svc", "pods/squares-head-0")
            ]
        finally:
            cluster.down()
    assert [answer["ray_version"] for answer in answers] == ["2.49.2", "2.49.2"]


def _answer(cluster: Cluster, path: str) -> Manifest:
    """What a server in a pod answers once it has started."""
    found: list[Manifest] = []

    def asked() -> bool:
        try:
            found.append(cluster.ask("GET", path))
        except urllib.error.HTTPError:
            return False
        return True

    until(asked, f"{path} does not answer", within=WITHIN)
    return found[0]

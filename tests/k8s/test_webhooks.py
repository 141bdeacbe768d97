"""The webhook on a real API server: expired certificates, deleted configurations, a webhook that is down."""

import base64
import itertools
import time
from collections.abc import Iterator

import pytest

from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.load import job, task
from tests.k8s.plain import JOBS, PODS, QUEUES, Object, StatusError, until
from tests.k8s.programs import Programs, programs_on
from tests.kubectl.edited import WAYS, check_edits
from volcano.base.http.tls import create_authority, expires_at, issue

pytestmark = pytest.mark.k8s

SECRETS = "/api/v1/namespaces/volcano-system/secrets"
SECRET = f"{SECRETS}/volcano-admission-secret"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
JOB_CHECK = f"{CONFIGURATIONS}/volcano-admission-service-jobs-validate"
DAY = 86_400.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def programs(fresh_apiserver: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs_on(fresh_apiserver, tmp_path_factory) as running:
        running.prepare("hooked")
        queue = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "default"},
        }
        running.api.create(QUEUES, {**queue, "spec": {"weight": 1}})
        running.api.patch(f"{QUEUES}/default/status", {"status": {"state": "Open"}})
        running.api.create(SECRETS, expired())
        running.start_webhook()
        until(lambda: admits(running), 60.0, running.logs)
        yield running


def expired() -> Object:
    """A Secret with certificates that expired years ago."""
    then = time.time() - 4000 * DAY
    authority = create_authority("volcano-admission", now=then)
    server = issue(authority, "127.0.0.1", hosts=["127.0.0.1"], now=then, server=True)
    content = {
        "ca.crt": authority.cert_pem,
        "ca.key": authority.key_pem,
        "tls.crt": server.cert_pem,
        "tls.key": server.key_pem,
    }
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    return {"metadata": {"name": "volcano-admission-secret"}, "type": "Opaque", "data": data}


def admits(programs: Programs) -> bool:
    """Whether jobs pass through the webhook: it sets defaults, and it denies an invalid job."""
    manifest = job(f"job-{next(_numbers)}", 1)
    del manifest["spec"]["minAvailable"]
    created = programs.api.create(JOBS.format("hooked"), manifest)
    try:
        programs.api.create(JOBS.format("hooked"), job(f"job-{next(_numbers)}", 1, queue="nowhere"))
    except StatusError as error:
        return created["spec"].get("minAvailable") == 1 and "validatejob.volcano.sh" in str(error)
    return False


def server_certificate(programs: Programs) -> bytes:
    return base64.b64decode(programs.api.get(SECRET)["data"]["tls.crt"])


def ca_bundle(programs: Programs) -> bytes:
    return base64.b64decode(programs.api.get(JOB_CHECK)["webhooks"][0]["clientConfig"]["caBundle"])


def test_expired_certificates_are_replaced_at_start(programs: Programs) -> None:
    assert expires_at(server_certificate(programs)) > time.time() + 300 * DAY
    assert ca_bundle(programs) == base64.b64decode(programs.api.get(SECRET)["data"]["ca.crt"])


def test_expired_certificates_are_replaced_while_the_webhook_runs(programs: Programs) -> None:
    before = programs.pid("webhooks")
    programs.api.patch(SECRET, {"data": expired()["data"]})
    until(
        lambda: expires_at(server_certificate(programs)) > time.time() and admits(programs),
        60.0,
        programs.logs,
    )
    assert ca_bundle(programs) == base64.b64decode(programs.api.get(SECRET)["data"]["ca.crt"])
    assert programs.pid("webhooks") == before


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_edited_job_is_applied_again(programs: Programs, way: tuple[str, ...]) -> None:
    def run(arguments: tuple[str, ...], stdin: str) -> str:
        done = programs.kubectl("-n", "hooked", *arguments, stdin=stdin)
        return done.stdout + done.stderr

    check_edits(run, way, "edited-" + "-".join(word.strip("-") for word in way))


@pytest.mark.parametrize(
    "invalid",
    [
        {"tasks": "text"},
        {"tasks": ["text"]},
        {"tasks": None},
        {"plugins": ["mpi"]},
        {"maxRetry": "three"},
        {
            "tasks": [
                {"name": "a", "maxRetry": 1, "minAvailable": 1, "template": {"spec": {"containers": [5]}}}
            ]
        },
    ],
    ids=str,
)
def test_the_error_for_an_invalid_job_names_the_field(programs: Programs, invalid: Object) -> None:
    """Match conditions are evaluated before the job is validated; the error must not be one of theirs."""
    manifest = complete_job(f"job-{next(_numbers)}")
    manifest["spec"] |= invalid
    with pytest.raises(StatusError) as caught:
        programs.api.create(JOBS.format("hooked"), manifest)
    assert "match condition" not in str(caught.value)
    assert "spec" in str(caught.value)


def complete_job(name: str) -> Object:
    """A job with every field set that the webhook would default."""
    manifest = job(name, 1)
    manifest["metadata"]["annotations"] = {"volcano.sh/user": "alice"}
    manifest["spec"] |= {"schedulerName": "volcano", "queue": "default", "maxRetry": 3}
    manifest["spec"]["tasks"] = [
        {**each, "minAvailable": 1, "maxRetry": 3} for each in manifest["spec"]["tasks"]
    ]
    return manifest


def test_a_deleted_configuration_is_created_again(programs: Programs) -> None:
    programs.api.delete(JOB_CHECK)
    until(lambda: admits(programs), 60.0, programs.logs)


def test_a_webhook_that_is_down_blocks_no_pods_and_recovers(programs: Programs) -> None:
    programs.restart_after = 3.0
    programs.kill("webhooks")
    spec = task("x", 1)["template"]["spec"]
    begun = time.monotonic()
    for scheduler in ("default-scheduler", "volcano", "other-scheduler"):
        pod = {"metadata": {"name": f"pod-of-{scheduler}"}, "spec": {**spec, "schedulerName": scheduler}}
        assert programs.api.create(PODS.format("hooked"), pod)["spec"]["schedulerName"] == scheduler
    with pytest.raises(StatusError, match=r"mutatejob\.volcano\.sh"):  # unvalidated jobs are denied
        programs.api.create(JOBS.format("hooked"), job("unchecked", 1))
    with pytest.raises(StatusError, match=r"validatejob\.volcano\.sh"):  # also those that need no defaults
        programs.api.create(JOBS.format("hooked"), complete_job("unchecked"))
    assert time.monotonic() - begun < 9.0  # no call ran into its timeout of ten seconds
    until(lambda: admits(programs), 60.0, programs.logs)


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_webhook_with_a_wrong_clock_has_valid_certificates(programs: Programs, ahead: float) -> None:
    programs.end("webhooks")
    programs.api.delete(SECRET)
    programs.start_webhook(ahead=ahead)
    until(lambda: admits(programs), 60.0, programs.logs)

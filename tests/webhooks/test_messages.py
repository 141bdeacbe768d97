"""Messages of rejections: short, with true paths, and with the code of their operation."""

import orjson
import pytest

from tests.cluster import SmallCluster
from tests.webhooks.reviews import Objects, found, job, queue, review
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.base.http.messages import Request, Response
from volcano.embedded.admission import admission_options, validating_plugin
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate, validate
from volcano.webhooks.webhook import Webhook


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(queue="q" * 5000), id="a value"),
        pytest.param(job(plugins={"p" * 5000: []}), id="a key"),
        pytest.param(job(policies=[{"event": "\n'" * 3000, "action": "AbortJob"}]), id="one that is escaped"),
        pytest.param(job(minAvailable=["x" * 300] * 50), id="a list of them"),
    ],
)
def test_long_values_are_cut_in_messages(manifest: Manifest) -> None:
    violations = validate(review(JOB, mutate(review(JOB, manifest))))
    assert violations
    for violation in violations:
        assert len(violation.field) < 300
        assert len(violation.message) < 2100
        assert "..." in str(violation)


def test_short_values_are_whole() -> None:
    assert "'q" not in found(review(JOB, job(queue="q" * 150)))["spec.queue"]
    assert "q" * 150 in found(review(JOB, job(queue="q" * 150)))["spec.queue"]


def test_a_capability_below_the_guarantee_is_told_in_volcanos_words() -> None:
    manifest = queue("q", capability={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}})
    assert found(review(QUEUE, manifest)) == {
        "spec.capability[cpu]": "capability[cpu]=1 must be >= guarantee[cpu]=2"
    }


@pytest.mark.parametrize(
    ("phase", "name"), [("Running", "default2"), ("Pending", "nowhere"), ("Pending", "root")]
)
def test_a_queue_that_a_job_may_not_move_to_is_a_field_that_may_not_change(phase: str, name: str) -> None:
    objects = {QUEUE: [queue("root"), queue("default", parent="root"), queue("default2")]}
    old = mutate(review(JOB, job()))
    assert old is not None
    old["status"] = {"state": {"phase": phase}}
    message = found(review(JOB, job(queue=name), old, objects))["spec"]
    assert message.startswith("job updates may not change fields other than")
    assert message.endswith("changed: queue")


async def test_a_refused_deletion_is_forbidden() -> None:
    plugin = validating_plugin(admission_options())

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        return await plugin(request, new, old, lookup) if plugin.handles(request.kind) else new

    async with SmallCluster(admit=admit) as cluster:
        await cluster.create(QUEUE, "root", spec={"weight": 1})
        with pytest.raises(
            Forbidden, match=r'queues.scheduling.volcano.sh "root" is forbidden: `root` queue'
        ):
            await cluster.delete(QUEUE, "root")


async def test_a_deletion_refused_by_the_webhook_is_forbidden() -> None:
    resource = {"group": QUEUE.group, "version": QUEUE.version, "resource": "queues"}
    asked = {
        "uid": "u",
        "operation": "DELETE",
        "name": "root",
        "resource": resource,
        "oldObject": queue("root"),
    }
    body = orjson.dumps({"request": asked})
    answer = await Webhook(Objects(), AdmissionOptions())(Request("POST", "/queues/validate", body=body))
    assert isinstance(answer, Response)
    status = orjson.loads(answer.body)["response"]["status"]
    assert status["code"] == 403
    assert 'queues.scheduling.volcano.sh "root" is forbidden' in status["message"]

"""Warnings of the batch kinds in the embedded API server: part of the answer, not of the log."""

from tests.webhooks.reviews import Objects, job
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.warnings import collecting
from volcano.embedded.admission import admission_options, mutating_plugin, validating_plugin
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key


async def test_an_unclear_network_topology_is_a_warning_in_the_answer() -> None:
    options, attributes = admission_options(), Attributes("create", JOB, Key("default", "train"))
    manifest = job(networkTopology={"mode": "hard", "highestTierName": "zone"})
    manifest |= {"apiVersion": JOB.api_version, "kind": "Job"}
    with collecting() as texts:
        defaulted = await mutating_plugin(options)(attributes, manifest, None, Objects())
        assert await validating_plugin(options)(attributes, defaulted, None, Objects()) == defaulted
    assert ['"zone"' in text for text in texts] == [True]

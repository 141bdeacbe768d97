"""Secrets that change soon after a pod has started reach it within seconds."""

from pathlib import Path

import pytest

from tests.embedded.pods import pod_cluster, until
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Key


@pytest.mark.slow
async def test_a_certificate_stored_after_the_start_of_its_pod_is_found_soon(tmp_path: Path) -> None:
    async with pod_cluster(tmp_path) as cluster:
        await cluster.create(SECRET, "certificate")
        pod = await cluster.pod(
            "operator",
            "sleep",
            "60",
            volumes=[{"name": "tls", "secret": {"secretName": "certificate"}}],
            mounts=[{"name": "tls", "mountPath": "/etc/tls"}],
        )
        await cluster.client.patch(SECRET, Key("default", "certificate"), {"stringData": {"tls.crt": "new"}})

        async def content() -> str | None:
            return (await cluster.run(pod, "sh", "-c", "cat /etc/tls/tls.crt 2>/dev/null || true")) or None

        assert (
            await until(content, "the certificate in the pod") == "new"
        )  # within half a minute; took 60 to 75 s

"""Everything a pod refers to is fetched, and what is missing is known to be missing."""

from tests.cluster import SmallCluster
from tests.nodes.kubelet.environment.pods import container, encoded, pod
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from volcano.nodes.kubelet.environment.references import fetch_references

REQUEST = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def test_a_pod_s_references_come_from_variables_and_volumes_of_every_kind() -> None:
    async with SmallCluster() as cluster:
        for name in ("volume", "projected", "whole", "key"):
            await cluster.create(CONFIG_MAP, name, data={"k": name})
            await cluster.create(SECRET, name, data={"k": encoded(name)})
        await cluster.create(CONFIG_MAP, "unreferenced")
        await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec={**REQUEST, "volumeName": "disk"})
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        await cluster.create(PERSISTENT_VOLUME, "disk", spec=spec)
        await cluster.create(SERVICE_ACCOUNT, "runner")
        await cluster.create(SERVICE, "kubernetes", spec={"ports": [{"port": 443}]})
        await cluster.create(SERVICE, "web", spec={"ports": [{"port": 80}]})
        await cluster.create(SERVICE, "far", namespace="kube-system", spec={"ports": [{"port": 80}]})
        wanting = container(
            envFrom=[{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "whole"}}],
            env=[
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}},
            ],
        )
        volumes = [
            {"name": "a", "configMap": {"name": "volume"}},
            {"name": "b", "secret": {"secretName": "volume"}},
            {
                "name": "c",
                "projected": {
                    "sources": [{"configMap": {"name": "projected"}}, {"secret": {"name": "projected"}}]
                },
            },
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": REQUEST}}},
        ]
        asking = pod(
            container(name="idle"), initContainers=[wanting], volumes=volumes, serviceAccountName="runner"
        )
        found = await fetch_references(cluster.client, asking)
        assert sorted(found.config_maps) == ["key", "projected", "volume", "whole"]
        assert sorted(found.secrets) == ["absent", "key", "projected", "volume", "whole"]
        assert found.secrets["absent"] is None
        assert found.claims["p-e"] is None
        assert (found.volumes["disk"] or {})["spec"]["hostPath"]["path"] == "/x"
        assert [each["metadata"]["name"] for each in found.services] == ["kubernetes", "web"]
        assert (found.account or {})["metadata"]["name"] == "runner"
        asking["spec"]["enableServiceLinks"] = False
        found = await fetch_references(cluster.client, asking)
        assert [each["metadata"]["name"] for each in found.services] == ["kubernetes"]

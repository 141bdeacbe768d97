"""What a pod is given when its API server is a real one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.k8s.control_plane.cluster import RealCluster
from tests.nodes.kubelet.environment.pods import ACCESS, FACTS
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SELF_SUBJECT_REVIEW,
    SERVICE_ACCOUNT,
)
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import Overrides, load_client_config
from volcano.nodes.kubelet.environment.environment import environment
from volcano.nodes.kubelet.environment.references import fetch_references
from volcano.nodes.kubelet.volumes.claims import FINALIZER, LOCAL_PROVISIONER, PROVISIONED_BY
from volcano.nodes.kubelet.volumes.store import VolumeManager

pytestmark = pytest.mark.k8s

SPACE = "pod-content"


def named(kind: str, name: str, **fields: object) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": SPACE}, **fields}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as closing:
        yield closing


async def test_a_pod_gets_token_certificate_and_claim_from_a_real_server(
    real_apiserver: RealCluster, tmp_path: Path, stack: AsyncExitStack
) -> None:
    clock = SystemClock()
    settings = load_client_config({}, kubeconfig=str(real_apiserver.kubeconfig))
    client = connect(settings, clock, environment={})
    stack.push_async_callback(client.close)
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    await client.create(SERVICE_ACCOUNT, named("ServiceAccount", "runner"))
    await client.create(CONFIG_MAP, named("ConfigMap", "kube-root-ca.crt", data={"ca.crt": "PEM"}))
    size = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    claim = named(
        "PersistentVolumeClaim", "data", spec={**spec, "resources": {"requests": size}, "volumeName": "disk"}
    )
    claim = await client.create(PERSISTENT_VOLUME_CLAIM, claim)
    await client.patch(
        PERSISTENT_VOLUME_CLAIM, Key(SPACE, "data"), {"status": {"phase": "Bound"}}, subresource="status"
    )
    reference = {"namespace": SPACE, "name": "data", "uid": uid_of(claim)}
    disk = {"capacity": size, "hostPath": {"path": str(tmp_path / "disk")}, "claimRef": reference}
    metadata = {"name": "disk", "annotations": {PROVISIONED_BY: LOCAL_PROVISIONER}}
    await client.create(
        PERSISTENT_VOLUME,
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**spec, **disk}},
    )
    target = "/var/run/secrets/kubernetes.io/serviceaccount"
    mounts = [{"name": "access", "mountPath": target}]
    main = {"name": "main", "image": "i", "command": ["true"], "volumeMounts": mounts}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "access", **ACCESS},
    ]
    pod = await client.create(
        POD,
        named("Pod", "p", spec={"serviceAccountName": "runner", "containers": [main], "volumes": volumes}),
    )
    references, store = await fetch_references(client, pod), VolumeManager(client, clock)
    given = await store.prepare(pod, tmp_path / "pod", references, FACTS)
    assert given["data"].path == str(tmp_path / "disk")
    assert (await client.get(PERSISTENT_VOLUME, Key("", "disk")))["metadata"]["finalizers"][-1] == FINALIZER
    variables = environment(pod, pod["spec"]["containers"][0], references, FACTS)
    assert variables["KUBERNETES_SERVICE_PORT"] == "443"
    (mount,) = store.mounts(pod, pod["spec"]["containers"][0], variables)
    assert (mount.target, mount.read_only) == (target, True)
    folder = Path(mount.source)
    assert (folder / "ca.crt").read_text() == "PEM"
    assert (folder / "namespace").read_text() == SPACE
    token = Overrides(token=(folder / "token").read_text(), server=settings.server)
    own = load_client_config({}, kubeconfig=str(real_apiserver.kubeconfig), overrides=token)
    as_pod = connect(own, clock, environment={})
    stack.push_async_callback(as_pod.close)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    user = (await as_pod.create(SELF_SUBJECT_REVIEW, review))["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{SPACE}:runner"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]

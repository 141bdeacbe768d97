"""Every kind of volume, with the real registry and the real disk."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.nodes.kubelet.environment.pods import ACCESS, FACTS, container, encoded, pod
from volcano.apiserver.authn.token_requests import request_token
from volcano.apiserver.authn.tokens import SigningKey, Tokens, new_signing_key
from volcano.controllers.kubernetes.volumes import PROVISIONER, VolumeController
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
)
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.informers.shared_informers import SharedInformerFactory
from volcano.nodes.kubelet.environment.references import fetch_references
from volcano.nodes.kubelet.volumes.claims import FINALIZER
from volcano.nodes.kubelet.volumes.reclaim import VolumeReclaimer
from volcano.nodes.kubelet.volumes.store import VolumeManager, refresh_delay
from volcano.nodes.shim.specs import Failure, Mount

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WHERE = {"key": "metadata.name", "operator": "In", "values": ["local-0"]}
MOUNT = {"name": "v", "mountPath": "/mnt"}


class World:
    """A cluster with the volumes of one node."""

    def __init__(self, cluster: SmallCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.asked: list[Manifest] = []
        self.pods: list[Manifest] = []
        self._tokens = Tokens(SigningKey(new_signing_key()), lambda: str(len(self.asked)))
        self.volumes = VolumeManager(cluster.client, cluster.clock, request_token=self.ask)

    async def ask(self, account: Key, request: Manifest) -> Manifest:
        self.asked.append(request)
        now = self.cluster.clock.now().wall
        return request_token(self._tokens, self.cluster.registry.lookup, account, request, now)

    async def given(self, of: Manifest) -> Path:
        """Prepares a pod and returns the path of its volume `v`."""
        references = await fetch_references(self.cluster.client, of)
        volumes = await self.volumes.prepare(of, self.pod_directory(of), references, FACTS)
        return Path(volumes["v"].path)

    async def mount_error(self, of: Manifest) -> str:
        with pytest.raises(Failure) as caught:
            await self.given(of)
        assert caught.value.reason == "FailedMount"
        return caught.value.message.removeprefix('MountVolume.SetUp failed for volume "v" : ')

    def pod_directory(self, of: Manifest) -> Path:
        return self.directory / "pods" / uid_of(of)

    def mount(self, of: Manifest, **environment: str) -> Mount:
        (mount,) = self.volumes.mounts(of, of["spec"]["containers"][0], environment)
        return mount


def with_volume(source: Manifest, mount: Manifest | None = None, **spec: Any) -> Manifest:
    return pod(
        container(volumeMounts=[{**MOUNT, **(mount or {})}]), volumes=[{"name": "v", **source}], **spec
    )


async def test_an_empty_dir_is_writable_by_all_and_keeps_its_content_over_a_restart(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world, of = World(cluster, tmp_path), with_volume({"emptyDir": {}})
        path = await world.given(of)
        assert path == tmp_path / "pods/uid-of-p/volumes/kubernetes.io~empty-dir/v"
        assert stat.S_IMODE(path.stat().st_mode) == 0o777
        (path / "kept").write_text("x")
        again = World(cluster, tmp_path)
        assert (await again.given(of) / "kept").read_text() == "x"
        assert again.mount(of) == Mount(str(path), "/mnt")
        await again.volumes.remove(uid_of(of), world.pod_directory(of))
        assert not path.exists()
        assert not again.volumes.volumes_of(uid_of(of))


async def test_memory_is_limited_by_the_volume_and_by_the_containers(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        of = with_volume({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})
        await world.given(of)
        assert (world.mount(of).memory, world.mount(of).size) == (True, 1 << 30)
        of["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
        await world.given(of)
        assert world.mount(of).size == 64 << 20
        of["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = "part"
        path = await world.given(of)
        # A subPath must be visible in mounts of the whole volume: on disk it is.
        assert world.mount(of) == Mount(str(path / "part"), "/mnt")


async def test_a_config_map_is_followed_but_not_by_a_part_of_it(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        await cluster.create(CONFIG_MAP, "c", data={"k": "old"})
        of = with_volume({"configMap": {"name": "c"}}, {"subPath": "k"})
        path = await world.given(of)
        part = Path(world.mount(of).source)
        assert world.mount(of).read_only
        with part.open() as bound:  # a bind mount holds the file as a reader does
            await cluster.patch(CONFIG_MAP, "c", {"data": {"k": "new", "more": "m"}})
            assert await world.volumes.refresh(of) == []
            assert (path / "k").read_text() == "new"
            assert (path / "more").read_text() == "m"
            assert bound.read() == "old"
        await cluster.delete(CONFIG_MAP, "c")
        (error,) = await world.volumes.refresh(of)
        assert 'configmap "c" not found' in error
        assert (path / "k").read_text() == "new"  # existing content is kept


def test_secrets_are_updated_soon_after_the_start_and_then_as_rarely_as_other_objects() -> None:
    secret = with_volume({"secret": {"secretName": "certificate"}})
    assert [refresh_delay(secret, n) for n in range(6)] == [5, 10, 20, 40, 60, 60]
    assert refresh_delay(secret, 100_000) == 60
    assert refresh_delay(with_volume({"configMap": {"name": "c"}}), 0) == 60


async def test_a_missing_config_map_holds_the_pod_up_until_it_is_there(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world, of = World(cluster, tmp_path), with_volume({"configMap": {"name": "c"}})
        assert await world.mount_error(of) == 'configmap "c" not found'
        await cluster.create(CONFIG_MAP, "c", data={"k": "v"})
        assert (await world.given(of) / "k").read_text() == "v"


async def test_a_secret_has_the_modes_it_asks_for(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        await cluster.create(SECRET, "s", data={"id_rsa": encoded("key")})
        path = await world.given(with_volume({"secret": {"secretName": "s", "defaultMode": 0o400}}))
        assert (path / "id_rsa").read_text() == "key"
        assert stat.S_IMODE((path / "id_rsa").stat().st_mode) == 0o400


async def test_a_pod_gets_its_own_token_and_a_new_one_before_it_expires(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        await cluster.create(SERVICE_ACCOUNT, "default")
        await cluster.create(CONFIG_MAP, "kube-root-ca.crt", data={"ca.crt": "PEM"})
        spec = with_volume(ACCESS)["spec"]
        of = await cluster.create(POD, "p", spec=spec)
        path = await world.given(of)
        assert [(path / name).read_text() for name in ("ca.crt", "namespace")] == ["PEM", "default"]
        first = (path / "token").read_text()
        assert world.asked[0]["spec"]["boundObjectRef"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": uid_of(of),
        }
        cluster.clock.advance(0.79 * 3607)
        await world.volumes.refresh(of)
        assert (path / "token").read_text() == first
        cluster.clock.advance(0.02 * 3607)
        await world.volumes.refresh(of)
        assert (path / "token").read_text() != first
        assert len(world.asked) == 2
        await cluster.delete(SERVICE_ACCOUNT, "default")
        cluster.clock.advance(3600)
        assert await world.volumes.refresh(of) == []  # existing content is kept
        await world.volumes.remove(uid_of(of), world.pod_directory(of))
        assert await world.mount_error(of) == 'failed to fetch token: serviceaccounts "default" not found'


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
async def test_a_token_is_for_the_user_and_group_the_pod_runs_as(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        await cluster.create(SERVICE_ACCOUNT, "default")
        await cluster.create(CONFIG_MAP, "kube-root-ca.crt", data={"ca.crt": "PEM"})
        who = {"runAsUser": 1000, "fsGroup": 2000}
        of = await cluster.create(POD, "p", spec=with_volume(ACCESS, securityContext=who)["spec"])
        status = (await world.given(of) / "token").stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1000, 2000, 0o640)


async def test_what_cannot_be_projected_is_named(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        of = with_volume({"projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "b"}}]}})
        assert "projected source clusterTrustBundle is not supported" in await World(
            cluster, tmp_path
        ).mount_error(of)


async def test_other_kinds_of_volume_are_rejected_with_a_list_of_the_supported_ones(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        message = await World(cluster, tmp_path).mount_error(
            with_volume({"nfs": {"server": "s", "path": "/"}})
        )
        assert message.startswith(
            "volumes of kind nfs are not supported on this node; those supported are emptyDir,"
        )


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("Directory", "is not a directory"),
        ("File", "is not a file"),
        ("Socket", "is not a socket file"),
        ("CharDevice", "is not a character device"),
        ("BlockDevice", "is not a block device"),
    ],
)
async def test_a_host_path_must_have_its_type(tmp_path: Path, kind: str, error: str) -> None:
    async with SmallCluster() as cluster:
        missing = with_volume({"hostPath": {"path": f"{tmp_path}/x", "type": kind}})
        error_text = await World(cluster, tmp_path).mount_error(missing)
        assert error_text == f"hostPath type check failed: {tmp_path}/x {error}"
        assert not (tmp_path / "x").exists()


async def test_paths_of_the_host_are_made_where_that_is_asked_for(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        for name, kind in (("d", "DirectoryOrCreate"), ("f", "FileOrCreate"), ("n", "")):
            await world.given(with_volume({"hostPath": {"path": f"{tmp_path}/{name}", "type": kind}}))
        assert [(tmp_path / name).is_dir() for name in "dfn"] == [True, False, True]
        wrong = with_volume({"hostPath": {"path": f"{tmp_path}/f", "type": "DirectoryOrCreate"}})
        assert "is not a directory" in await world.mount_error(wrong)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{tmp_path}/s")
            await world.given(with_volume({"hostPath": {"path": f"{tmp_path}/s", "type": "Socket"}}))
        device = with_volume({"hostPath": {"path": "/dev/null", "type": "CharDevice"}})
        assert await world.given(device) == Path("/dev/null")


async def test_the_keys_of_the_cluster_are_never_mounted(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        data, kubeconfig, other = tmp_path / "data", tmp_path / "home/config", tmp_path / "other"
        for directory in (data / "volumes/pv", kubeconfig.parent, other):
            directory.mkdir(parents=True)
        kubeconfig.touch()
        (other / "link").symlink_to(data)
        world = World(cluster, data)
        world.volumes = VolumeManager(cluster.client, cluster.clock, private=(data, kubeconfig))
        refused = (
            "/",
            tmp_path,
            data,
            data / "pods",
            data / "volumes/pv",
            other / "link",
            f"{other}/../data",
        )
        for path in (*refused, kubeconfig, kubeconfig.parent):
            error = await world.mount_error(with_volume({"hostPath": {"path": str(path)}}))
            assert error.startswith(f"hostPath {path} is not mounted: it contains or is part of {tmp_path}")
        of = with_volume({"hostPath": {"path": str(other)}})
        assert await world.given(of) == other
        assert world.mount(of).apart_from == str(data)


async def test_the_keys_of_the_cluster_are_not_mounted_by_claims_either(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController()) as cluster:
        data = tmp_path / "data"
        world = World(cluster, data)
        world.volumes = VolumeManager(cluster.client, cluster.clock, private=(data,))
        paths = {
            "keys": data,
            "provisioned": data / "volumes/pv",
            "all": data / "volumes",
            "around": tmp_path,
        }
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "manual",
        }
        for name, path in paths.items():
            source = {"hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}
            labels = {"labels": {"which": name}}
            await cluster.create(PERSISTENT_VOLUME, name, metadata=labels, spec={**spec, **source})
            claim = {**CLAIM, "storageClassName": "manual", "selector": {"matchLabels": {"which": name}}}
            await cluster.create(PERSISTENT_VOLUME_CLAIM, name, spec=claim)
        of = {name: with_volume({"persistentVolumeClaim": {"claimName": name}}) for name in paths}
        for name in ("keys", "all", "around"):
            assert "is not mounted" in await world.mount_error(of[name])
        assert await world.given(of["provisioned"]) == data / "volumes/pv"
        assert world.mount(of["provisioned"]).apart_from == ""


async def test_parts_of_a_volume_are_made_and_named_by_variables(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        of = with_volume({"emptyDir": {}}, {"subPathExpr": "$(JOB)/$(RANK)"})
        path = await world.given(of)
        assert world.mount(of, JOB="j", RANK="2").source == str(path / "j/2")
        assert stat.S_IMODE((path / "j/2").stat().st_mode) == 0o777
        with pytest.raises(Failure, match='missing value for "RANK"'):
            world.mount(of, JOB="j")


@pytest.mark.parametrize("sub_path", ["../x", "a/../../x", "/etc", "escape", "escape/deeper", "inner/escape"])
async def test_a_part_cannot_lead_out_of_its_volume(tmp_path: Path, sub_path: str) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        of = with_volume({"emptyDir": {}}, {"subPath": sub_path})
        path = await world.given(of)
        outside = tmp_path / "outside"
        outside.mkdir()
        (path / "escape").symlink_to(outside)
        (path / "inner").mkdir()
        (path / "inner/escape").symlink_to("../../../../../..")
        with pytest.raises(Failure, match=r"SubPath|subPath") as caught:
            world.mount(of)
        assert caught.value.reason == "CreateContainerConfigError"
        assert list(outside.iterdir()) == []


async def test_a_link_within_the_volume_may_be_a_part(tmp_path: Path) -> None:
    async with SmallCluster() as cluster:
        world = World(cluster, tmp_path)
        of = with_volume({"emptyDir": {}}, {"subPath": "current"})
        path = await world.given(of)
        (path / "v2").mkdir()
        (path / "current").symlink_to("v2")
        assert world.mount(of).source == str(path / "v2")


async def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    async with SmallCluster() as cluster:
        await cluster.create(CONFIG_MAP, "c", data={"k": "v"})
        of = with_volume({"configMap": {"name": "c"}})
        monkeypatch.setattr(Path, "write_bytes", full)
        assert "No space left on device" in await World(cluster, tmp_path).mount_error(of)


def local_class(**fields: Any) -> Manifest:
    note = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "metadata": {"annotations": note},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        **fields,
    }


@asynccontextmanager
async def reclaiming(world: World) -> AsyncIterator[None]:
    cluster = world.cluster
    informers = SharedInformerFactory(cluster.client, cluster.clock)
    directory = world.directory / "volumes"
    work = VolumeReclaimer(cluster.client, informers, cluster.clock, directory, lambda: world.pods).run()
    task = asyncio.create_task(work)
    await cluster.rest()
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def no_volumes(cluster: SmallCluster) -> None:
    """Waits for the thread that removes a directory, and for what follows."""
    for _ in range(200):
        if not await cluster.all(PERSISTENT_VOLUME):
            return
        await asyncio.sleep(0.01)
        await cluster.pass_time(1)
    raise AssertionError("the volume is there still")


async def test_a_claim_waits_for_its_volume_keeps_its_data_and_takes_it_along(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController(host_directory=str(tmp_path / "volumes"))) as cluster:
        world = World(cluster, tmp_path)
        async with reclaiming(world):
            of = with_volume({"persistentVolumeClaim": {"claimName": "data"}}, {"readOnly": True})
            prefix = "error processing PVC default/data"
            assert await world.mount_error(of) == f'{prefix}: persistentvolumeclaims "data" not found'
            await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec=CLAIM)
            assert await world.mount_error(of) == f"{prefix}: PVC is not bound"
            await cluster.create(STORAGE_CLASS, "local", **local_class())
            path = await world.given(of)
            (persistent,) = await cluster.all(PERSISTENT_VOLUME)
            assert path == tmp_path / "volumes" / persistent["metadata"]["name"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o777
            assert world.mount(of).read_only
            assert persistent["metadata"]["finalizers"] == [FINALIZER]
            (path / "kept").mkdir(mode=0o000)
            await world.volumes.remove(uid_of(of), world.pod_directory(of))
            assert (await world.given(of) / "kept").exists()
            world.pods.append(of)
            await cluster.delete(PERSISTENT_VOLUME_CLAIM, "data")
            await cluster.pass_time(5)
            await asyncio.sleep(0.05)
            assert path.exists()  # a pod still uses it
            of["status"] = {"phase": "Succeeded"}
            await no_volumes(cluster)
            assert not path.exists()


async def test_a_retained_volume_leaves_its_directory(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController(host_directory=str(tmp_path / "volumes"))) as cluster:
        world = World(cluster, tmp_path)
        async with reclaiming(world):
            await cluster.create(STORAGE_CLASS, "local", **local_class(reclaimPolicy="Retain"))
            await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec=CLAIM)
            of = with_volume({"persistentVolumeClaim": {"claimName": "data"}})
            path = await world.given(of)
            await world.volumes.remove(uid_of(of), world.pod_directory(of))
            await cluster.delete(PERSISTENT_VOLUME_CLAIM, "data")
            (persistent,) = await cluster.all(PERSISTENT_VOLUME)
            assert persistent["status"]["phase"] == "Released"
            await cluster.delete(PERSISTENT_VOLUME, persistent["metadata"]["name"])
            await no_volumes(cluster)
            assert path.is_dir()


async def test_an_ephemeral_volume_is_deleted_with_its_pod(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController(host_directory=str(tmp_path / "volumes"))) as cluster:
        world = World(cluster, tmp_path)
        async with reclaiming(world):
            await cluster.create(STORAGE_CLASS, "local", **local_class())
            template = {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM}
            spec = with_volume({"ephemeral": {"volumeClaimTemplate": template}})["spec"]
            of = await cluster.create(POD, "p", spec={**spec, "nodeName": "local-0"})
            (claim,) = await cluster.all(PERSISTENT_VOLUME_CLAIM)
            assert (claim["metadata"]["name"], claim["metadata"]["labels"]) == ("p-v", {"a": "b"})
            path = await world.given(of)
            assert path.is_dir()
            await world.volumes.remove(uid_of(of), world.pod_directory(of))
            await cluster.delete(POD, "p", grace=0)
            await no_volumes(cluster)
            assert not path.exists()


async def test_a_claim_with_another_owner_is_not_used_as_an_ephemeral_volume(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController(host_directory=str(tmp_path / "volumes"))) as cluster:
        await cluster.create(STORAGE_CLASS, "local", **local_class())
        await cluster.create(PERSISTENT_VOLUME_CLAIM, "p-v", spec=CLAIM)
        spec = with_volume({"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}})["spec"]
        of = await cluster.create(POD, "p", spec={**spec, "nodeName": "local-0"})
        error_text = await World(cluster, tmp_path).mount_error(of)
        assert error_text.endswith("was not created for pod default/p (pod is not owner)")
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "p-v")
        assert (await World(cluster, tmp_path).given(of)).is_dir()


async def test_volumes_that_others_made_are_used_where_they_are(tmp_path: Path) -> None:
    async with SmallCluster(VolumeController()) as cluster:
        world = World(cluster, tmp_path)
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
        }
        sources: dict[str, Manifest] = {
            "here": {"hostPath": {"path": str(tmp_path / "here"), "type": "DirectoryOrCreate"}},
            "local": {"local": {"path": str(tmp_path / "local")}},
            "far": {"nfs": {"server": "s", "path": "/"}},
        }
        affinity = {"required": {"nodeSelectorTerms": [{"matchFields": [WHERE]}]}}
        for name, source in sources.items():
            more = {"nodeAffinity": affinity} if name == "local" else {}
            labels = {"labels": {"which": name}}
            await cluster.create(PERSISTENT_VOLUME, name, metadata=labels, spec={**spec, **source, **more})
            claim = {**CLAIM, "storageClassName": "manual", "selector": {"matchLabels": {"which": name}}}
            await cluster.create(PERSISTENT_VOLUME_CLAIM, name, spec=claim)
        of = {name: with_volume({"persistentVolumeClaim": {"claimName": name}}) for name in sources}
        assert await world.given(of["here"]) == tmp_path / "here"
        assert await world.mount_error(of["local"]) == f'path "{tmp_path}/local" does not exist'
        (tmp_path / "local").mkdir()
        assert await world.given(of["local"]) == tmp_path / "local"
        assert "not supported on this node (nfs); use one with hostPath or local" in await world.mount_error(
            of["far"]
        )

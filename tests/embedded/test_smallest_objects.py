"""The smallest objects that the API accepts, and objects with nulls: no component fails, no request gets a 5xx."""

import asyncio
import copy
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver import conformance
from tests.embedded.test_cluster import cluster
from volcano.base.clock import SystemClock
from volcano.base.http.messages import Request, Response
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import (
    CRD,
    LIMIT_RANGE,
    NAMESPACE,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_QUOTA,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, Options

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILE = Path(__file__).parent / "smallest_manifests.yaml"
DRY_RUN = Options(dry_run=True)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Paths of the kept parts of an object: without them it is another object.
KEPT = (("apiVersion",), ("kind",), ("metadata",))
FieldPath = tuple[str | int, ...]


class Failures(logging.Handler):
    """Collects what any component logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.found.append(f"{record.getMessage()}{cause}")


class Trial:
    """Objects of all kinds in a running cluster, created over HTTPS."""

    def __init__(self, running: LocalCluster, client: Client) -> None:
        self._running = running
        self._client = client
        self._count = 0
        self.server_errors: list[str] = []

    async def accepts(self, kind: Kind, manifest: Manifest) -> bool:
        try:
            await self._client.create(kind, manifest, options=DRY_RUN)
        except ApiError as error:
            self._check(error, kind, manifest)
            return False
        return True

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest | None:
        self._count += 1
        metadata = manifest["metadata"]
        if kind != CRD:
            metadata = {**metadata, "name": f"small-{self._count}"}
        try:
            return await self._client.create(kind, {**manifest, "metadata": metadata})
        except ApiError as error:
            self._check(error, kind, manifest)
            return None

    async def update(self, kind: Kind, manifest: Manifest) -> None:
        metadata = {**manifest["metadata"]}
        metadata.pop("resourceVersion", None)
        for subresource in ("", *({"status"} & set(kind.subresources))):
            try:
                await self._client.update(kind, {**manifest, "metadata": metadata}, subresource=subresource)
            except ApiError as error:
                self._check(error, kind, manifest)

    async def list_as_table(self, kind: Kind) -> None:
        plane = self._running.control_plane
        assert plane is not None
        prefix = f"/apis/{kind.group}" if kind.group else "/api"
        headers = {"authorization": f"Bearer {plane.credentials.admin_token}", "accept": TABLE}
        request = Request("GET", f"{prefix}/{kind.version}/{kind.plural}", headers=headers)
        answer = await plane.api_server(request)
        assert isinstance(answer, Response)
        assert answer.status == 200, (kind, answer.body)

    async def smallest(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Removes fields for as long as the API accepts the rest."""
        for path in list(paths(manifest)):
            if exists(manifest, path) and await self.accepts(kind, rest := changed(manifest, path)):
                manifest = rest
        return manifest

    def _check(self, error: ApiError, kind: Kind, manifest: Manifest) -> None:
        if error.code >= 500:
            self.server_errors.append(f"{kind.kind}: {error.code} {error.message}: {manifest}")


def full_manifests() -> list[Manifest]:
    return [*conformance.minimal_manifests(), *yaml.safe_load_all(FILE.read_text())]


def paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Paths of all fields and entries, the outermost first."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, inner in entries:
        if (*path, step) not in KEPT:
            yield (*path, step)
            yield from paths(inner, (*path, step))


def exists(value: Any, path: FieldPath) -> bool:
    for step in path:
        if isinstance(value, dict):
            if step not in value:
                return False
        elif not isinstance(value, list) or not isinstance(step, int) or step >= len(value):
            return False
        value = value[step]
    return True


def changed(manifest: Manifest, path: FieldPath, *value: Any) -> Manifest:
    """A copy with another value at a path, or without it when no value is given."""
    result = copy.deepcopy(manifest)
    holder: Any = result
    for step in path[:-1]:
        holder = holder[step]
    if value:
        holder[path[-1]] = value[0]
    else:
        del holder[path[-1]]
    return result


def variants(manifest: Manifest) -> Iterator[Manifest]:
    """The object without each field, and with null, an empty map and an empty list instead."""
    for path in paths(manifest):
        yield changed(manifest, path)
        yield changed(manifest, path, None)
        yield changed(manifest, path, {})
        yield changed(manifest, path, [])


def with_nulls(manifest: Manifest) -> Iterator[Manifest]:
    for name in ("spec", "status"):
        if not manifest.get(name):
            yield {**manifest, name: {}}
            yield {**manifest, name: None}
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        yield {**manifest, "metadata": {**manifest["metadata"], name: None}}


def identified(kind: Kind, manifest: Manifest) -> Manifest:
    if kind == CRD:
        return manifest
    # Quotas and limits must not reject the pods of the other objects.
    namespace = "limited" if kind in (RESOURCE_QUOTA, LIMIT_RANGE) else "default"
    metadata = {"name": "small", **({"namespace": namespace} if kind.namespaced else {})}
    return {**manifest, "metadata": metadata}


async def try_kind(trial: Trial, kind: Kind, given: list[Manifest]) -> int:
    """Creates and updates the smallest object of a kind and variants of the given ones; returns how many were made."""
    candidates = [{"apiVersion": kind.api_version, "kind": kind.kind}, *given]
    candidates = [identified(kind, manifest) for manifest in candidates if kind != CRD or "spec" in manifest]
    accepted = [manifest for manifest in candidates if await trial.accepts(kind, manifest)]
    assert accepted, f"no manifest of {kind} is accepted"
    smallest = await trial.smallest(kind, accepted[0])
    made = 0
    for manifest in (smallest, *with_nulls(smallest), *(v for full in candidates for v in variants(full))):
        stored = await trial.create(kind, manifest)
        if stored is None:
            continue
        made += 1
        if made % 10 == 1:
            for other in variants({name: value for name, value in stored.items() if name != "metadata"}):
                await trial.update(kind, {**other, "metadata": stored["metadata"]})
    return made


async def test_no_accepted_object_makes_a_component_or_a_request_fail(tmp_path: Path) -> None:
    failures = Failures()
    logging.getLogger("volcano").addHandler(failures)
    try:
        async with cluster(tmp_path, local=LocalNodeOptions(nodes=0)) as running:
            client = connect(load_client_config({}, kubeconfig=str(running.kubeconfig)), SystemClock())
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}}
            await client.create(NAMESPACE, namespace)
            trial = Trial(running, client)
            kinds = [served.kind for served in running.registry.kinds]
            for kind in kinds:
                full = [
                    m
                    for m in full_manifests()
                    if (m["apiVersion"], m["kind"]) == (kind.api_version, kind.kind)
                ]
                assert await try_kind(trial, kind, full)
                await trial.list_as_table(kind)
                pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"namespace": "default", "labels": {"a": "b"}},
                }
                assert await trial.create(POD, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            await asyncio.sleep(2)
            for kind in reversed(kinds):
                for item in (await client.list(kind)).items:
                    if key_of(item).name.startswith("small-"):
                        await delete(trial, client, kind, key_of(item))
            await asyncio.sleep(2)
            await client.close()
    finally:
        logging.getLogger("volcano").removeHandler(failures)
    assert trial.server_errors == []
    assert failures.found == []


async def delete(trial: Trial, client: Client, kind: Kind, key: Key) -> None:
    try:
        await client.delete(kind, key)
    except ApiError as error:
        trial._check(error, kind, {"metadata": {"name": key.name}})


async def test_pods_are_written_and_evicted_beside_a_budget_without_spec(tmp_path: Path) -> None:
    failures = Failures()
    logging.getLogger("volcano").addHandler(failures)
    try:
        async with cluster(tmp_path, local=LocalNodeOptions(nodes=0)) as running:
            budget = {"apiVersion": POD_DISRUPTION_BUDGET.api_version, "kind": POD_DISRUPTION_BUDGET.kind}
            metadata = {"name": "empty", "namespace": "default"}
            stored = await running.client.create(POD_DISRUPTION_BUDGET, {**budget, "metadata": metadata})
            assert stored["spec"] == {}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await running.client.create(POD, {**pod, "spec": spec})
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": pod["metadata"]}
            await running.client.create(POD, eviction, subresource="eviction")
            await asyncio.sleep(0.5)
    finally:
        logging.getLogger("volcano").removeHandler(failures)
    assert failures.found == []

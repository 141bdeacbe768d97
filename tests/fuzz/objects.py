"""Objects under mutation: created, updated, patched in four ways, read and deleted."""

import copy
import json
import sys
from collections import deque
from random import Random
from typing import Any

import orjson
import yaml

from tests.fuzz.cluster import FuzzedCluster
from tests.fuzz.mutations import Mutator
from tests.fuzz.samples import NAMESPACE, samples
from tests.fuzz.typed import TypedValues
from volcano.kube.api import protobuf, type_info
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

ALIVE = 40  # objects that exist at a time, so that controllers and the scheduler work on them
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
# Webhooks are called for other requests, and would fail them as they should: they are only validated.
DRY_RUN_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
CONNECTING = ("attach", "exec", "portforward", "proxy", "log")
SUBRESOURCE_BODIES: dict[str, Manifest] = {
    "binding": {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "node-1"}},
    "eviction": {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": 0}},
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}},
    "token": {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}},
}  # fmt: skip
DELETE_OPTIONS: Manifest = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
    "preconditions": {"uid": "u", "resourceVersion": "1"},
    "dryRun": [],
}


class ObjectFuzzer:
    """Sends mutated objects until a number of them has been sent."""

    def __init__(self, cluster: FuzzedCluster, seed: int) -> None:
        self.mutations = 0
        self._cluster = cluster
        self._random = Random(seed)
        self._samples = samples()
        self._mutator = Mutator(self._random, self._samples)
        self._typed = TypedValues(self._random)
        self._alive: deque[tuple[Kind, str]] = deque()

    async def run(self, mutations: int) -> None:
        number = 0
        while self.mutations < mutations:
            number += 1
            await self._one_object(f"f{number % 200}")
        while self._alive:
            await self._remove(*self._alive.popleft())

    async def _one_object(self, name: str) -> None:
        sample = copy.deepcopy(self._random.choice(self._samples))
        kind = self._cluster.kind_of(sample)
        if kind.kind != "CustomResourceDefinition":  # whose names are given by their content
            sample["metadata"]["name"] = name
        name = sample["metadata"]["name"]
        if self._random.random() < 0.3:
            await self._send("POST", kind, "", orjson.dumps(sample))
        else:
            await self._create_mutated(kind, sample)
            await self._cluster.send(
                "POST", self._path(kind, ""), orjson.dumps(sample)
            )  # usually rejected before
        self._alive.append((kind, name))
        for _ in range(self._random.randint(2, 6)):
            await self._change(kind, name, sample)
        await self._cluster.send(
            "GET", self._path(kind, name), accept=self._random.choice([TABLE, "application/yaml", "*/*"])
        )
        while len(self._alive) > ALIVE:
            await self._remove(*self._alive.popleft())

    async def _create_mutated(self, kind: Kind, sample: Manifest) -> None:
        body, content_type = self._encoded(kind, self._mutated(sample))
        await self._send("POST", kind, "", body, content_type)

    async def _change(self, kind: Kind, name: str, sample: Manifest) -> None:
        subresource = self._subresource(kind)
        base = SUBRESOURCE_BODIES.get(subresource, sample)
        if subresource in ("binding", "eviction", "token"):
            posted = {**base, "metadata": {"name": name}}
            await self._send("POST", kind, f"{name}/{subresource}", encoded(self._mutated(posted)))
            return
        place = f"{name}/{subresource}" if subresource else name
        match self._random.randrange(5):
            case 0:
                body, content_type = self._encoded(
                    kind, self._mutated({**base, "metadata": sample["metadata"]})
                )
                await self._send("PUT", kind, place, body, content_type)
            case 1:
                await self._send("PATCH", kind, place, encoded(self._partial(base)), MERGE)
            case 2:
                await self._send("PATCH", kind, place, encoded(self._partial(base)), STRATEGIC)
            case 3:
                await self._send("PATCH", kind, place, encoded(self._operations(base)), JSON_PATCH)
            case 4:
                body = encoded(self._mutated(base))
                await self._send("PATCH", kind, place, body, APPLY, fieldManager="fuzz", force="true")

    async def _remove(self, kind: Kind, name: str) -> None:
        """Deletes with mutated options first, then for certain."""
        if self._random.random() < 0.5:
            await self._send("DELETE", kind, name, encoded(self._mutated(DELETE_OPTIONS)))
        await self._cluster.send("DELETE", self._path(kind, name), b'{"gracePeriodSeconds":0}')
        await self._cluster.send("PATCH", self._path(kind, name), b'{"metadata":{"finalizers":null}}', MERGE)

    async def _send(
        self, method: str, kind: Kind, place: str, body: bytes, content_type: str = "application/json", **query: str
    ) -> None:  # fmt: skip
        self.mutations += 1
        parameters = {name: [value] for name, value in query.items()}
        if kind.kind in DRY_RUN_KINDS or self._random.random() < 0.05:
            parameters["dryRun"] = ["All"]
        if self._random.random() < 0.1:
            parameters["fieldValidation"] = [self._random.choice(["Strict", "Ignore", "Warn"])]
        await self._cluster.send(method, self._path(kind, place), body, content_type, parameters)

    def _path(self, kind: Kind, place: str) -> str:
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        namespace = f"/namespaces/{NAMESPACE}" if kind.namespaced else ""
        return f"{base}{namespace}/{kind.plural}{'/' if place else ''}{place}"

    def _subresource(self, kind: Kind) -> str:
        known = [name for name in kind.subresources if name not in CONNECTING]
        if not known or self._random.random() < 0.6:
            return ""
        return self._random.choice(known)

    def _mutated(self, manifest: Manifest) -> Any:
        """A mutation whose type and name mostly stay, so that it gets further than the first check."""
        if "apiVersion" in manifest and self._random.random() < 0.4:
            mutated = copy.deepcopy(manifest)
            for _ in range(self._random.randint(1, 4)):
                self._typed.add_field(mutated)
            if self._random.random() < 0.3:
                mutated = self._mutator.mutated(mutated)
        else:
            mutated = self._mutator.mutated(manifest)
        if isinstance(mutated, dict) and self._random.random() < 0.9:
            for field in ("apiVersion", "kind"):
                if field in manifest:
                    mutated[field] = manifest[field]
            metadata = mutated.setdefault("metadata", {})
            name = (manifest.get("metadata") or {}).get("name")
            if isinstance(metadata, dict) and name:
                metadata["name"] = name
        return mutated

    def _partial(self, manifest: Manifest) -> Any:
        """A merge patch of one mutated field."""
        fields = [field for field in manifest if field not in ("apiVersion", "kind")]
        field = self._random.choice(fields)
        if self._random.random() < 0.4:
            typed = copy.deepcopy(manifest)
            self._typed.add_field(typed)
            return {name: value for name, value in typed.items() if value != manifest.get(name)}
        return self._mutator.mutated({field: manifest[field]})

    def _operations(self, manifest: Manifest) -> Any:
        """A JSON patch of a few operations on places that mostly exist."""
        operations: list[Any] = []
        for _ in range(self._random.randint(1, 3)):
            operation = {
                "op": self._random.choice(["add", "remove", "replace", "test", "move", "copy"]),
                "path": self._pointer(manifest),
                "from": self._pointer(manifest),
                "value": self._mutator.value(),
            }
            operations.append(self._mutator.mutated(operation) if self._random.random() < 0.1 else operation)
        return operations

    def _pointer(self, manifest: Manifest) -> str:
        return "".join(
            f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in self._mutator.path(manifest)
        )

    def _encoded(self, kind: Kind, manifest: Any) -> tuple[bytes, str]:
        chance = self._random.random()
        if chance < 0.05:
            try:
                return yaml.dump(manifest, Dumper=yaml.CSafeDumper).encode(), "application/yaml"
            except RecursionError:
                pass
        type_ = type_info.type_of(kind)
        if chance < 0.15 and type_ is not None:
            try:
                return protobuf.encode(type_, manifest), "application/vnd.kubernetes.protobuf"
            except (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError):
                pass  # not every mutation has this form
        return encoded(manifest), "application/json"


def encoded(value: Any) -> bytes:
    """JSON, also of what is nested too deeply for the encoder of the server."""
    try:
        return orjson.dumps(value)
    except TypeError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)
        try:
            return json.dumps(value).encode()
        finally:
            sys.setrecursionlimit(limit)

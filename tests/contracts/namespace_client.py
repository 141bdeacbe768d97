"""A client with a namespace of its own, for the contract of all clients."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contracts.clients import OURS
from volcano.kube.api.kinds import CONFIG_MAP, POD, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client, Options, PatchType, Query

SERVERS = [*OURS, pytest.param("real", marks=pytest.mark.k8s)]
numbers = itertools.count(1)
APPLY = Options(patch_type=PatchType.APPLY, field_manager="tester")


@dataclass
class NamespaceClient:
    """A client and its own namespace."""

    client: Client
    namespace: str

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def query(self, **more: Any) -> Query:
        return Query(namespace=self.namespace, **more)

    def config(self, name: str = "settings", labels: dict[str, str] | None = None, **data: str) -> Manifest:
        metadata: Manifest = {"name": name, "namespace": self.namespace}
        if labels:
            metadata["labels"] = labels
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def pod(self, name: str = "web", **spec: Any) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
        }

    def deployment(self, name: str = "web", replicas: int = 2) -> Manifest:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
                },
            },
        }

    async def create(self, manifest: Manifest, kind: Kind = CONFIG_MAP) -> Manifest:
        return await self.client.create(kind, manifest)

    async def names(self, kind: Kind = CONFIG_MAP, **query: Any) -> list[str]:
        listing = await self.client.list(kind, self.query(**query))
        return [item["metadata"]["name"] for item in listing.items if not in_every_namespace(item)]


def in_every_namespace(item: Manifest) -> bool:
    """Whether a controller creates this object in every namespace."""
    return bool(item["metadata"]["name"] == "kube-root-ca.crt")


async def bind(ns: NamespaceClient, name: str, node: str) -> Manifest:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": ns.namespace},
        "target": {"kind": "Node", "name": node},
    }
    return await ns.client.create(POD, binding, subresource="binding")

"""The rendered objects of the chart, by kind and name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Object = dict[str, Any]
DEPLOYMENTS = {
    "volcano-scheduler": "vc-scheduler",
    "volcano-controllers": "vc-controller-manager",
    "volcano-admission": "vc-webhook-manager",
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of one rendering."""

    objects: tuple[Object, ...]

    @classmethod
    def of(cls, text: str) -> "Rendered":
        return cls(tuple(found for found in yaml.load_all(text, yaml.CSafeLoader) if found))

    def all(self, kind: str) -> Iterator[Object]:
        return (found for found in self.objects if found["kind"] == kind)

    def names(self, kind: str) -> set[str]:
        return {found["metadata"]["name"] for found in self.all(kind)}

    def one(self, kind: str, name: str) -> Object:
        found = [each for each in self.all(kind) if each["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind} {name}: {len(found)} of {sorted(self.names(kind))}"
        return found[0]

    def pod(self, name: str) -> Object:
        """The pod template's spec of a Deployment."""
        spec: Object = self.one("Deployment", name)["spec"]["template"]["spec"]
        return spec

    def container(self, name: str) -> Object:
        """The only container of a Deployment."""
        (only,) = self.pod(name)["containers"]
        found: Object = only
        return found

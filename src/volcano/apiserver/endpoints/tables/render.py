"""Conversion of objects to meta.k8s.io Table and PartialObjectMetadata."""

from collections.abc import Iterable
from typing import Any

from volcano.apiserver.endpoints.tables.cells import Printer
from volcano.apiserver.endpoints.tables.pods import POD_PRINTER, pod_conditions
from volcano.kube.api.manifest import Manifest

META_GROUP = "meta.k8s.io"


def table(
    printer: Printer,
    manifests: Iterable[Manifest],
    now: float,
    *,
    version: str = "v1",
    include: str = "Metadata",
    metadata: Manifest | None = None,
) -> Manifest:
    """Builds a `meta.k8s.io` Table with one row per object. `include` is None, Metadata or Object."""
    return {
        "kind": "Table",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": metadata or {},
        "columnDefinitions": column_definitions(printer),
        "rows": [_row(printer, manifest, now, version, include) for manifest in manifests],
    }


def column_definitions(printer: Printer) -> list[Manifest]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in printer.columns
    ]


def _row(printer: Printer, manifest: Manifest, now: float, version: str, include: str) -> Manifest:
    row: dict[str, Any] = {"cells": printer.handler(manifest, now)}
    if printer is POD_PRINTER and (conditions := pod_conditions(manifest)):
        row["conditions"] = conditions
    match include:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = manifest
        case _:
            row["object"] = partial(manifest, version)
    return row


def partial(manifest: Manifest, version: str = "v1") -> Manifest:
    """Returns the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": manifest.get("metadata") or {},
    }

"""Manifest files: reading, validation with file and line, and applying in order."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from volcano.base.os_errors import explain_os_error
from volcano.base.yaml_loader import YamlError, load_documents
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client, Options, PatchType


class FileError(ValueError):
    """A file that cannot be used, with its location and the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file."""

    source: str  # file and line
    manifest: Manifest

    @property
    def title(self) -> str:
        return f"{self.manifest['kind']} {self.manifest['metadata'].get('name', '')}"


def read_files(paths: Sequence[str]) -> list[Document]:
    """Every object in YAML or JSON files; a directory means the files in it, `-` standard input."""
    documents: list[Document] = []
    for path in paths:
        for name, text in _texts(path):
            documents.extend(read_text(name, text))
    return documents


def _texts(path: str) -> Iterable[tuple[str, bytes]]:
    if path == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    place = Path(path)
    if not path:
        raise FileError("'': no such file")
    try:
        if place.is_dir():
            for file in sorted(place.iterdir()):
                if file.suffix in (".yaml", ".yml", ".json"):
                    yield str(file), file.read_bytes()
        else:
            yield path, place.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"cannot be read: {explain_os_error(error, path)}") from None


def read_text(name: str, text: bytes | str) -> Iterable[Document]:
    """Every object of a text, which is called `name` in errors."""
    try:
        documents = load_documents(text)
    except YamlError as error:
        raise FileError(f"{name}: not valid YAML: {error}") from None
    for document in documents:
        if document.duplicates:
            raise FileError(f"{name}: not valid YAML: {document.duplicates[0]}")
        if document.value is None:
            continue
        source = f"{name}:{document.line}"
        for item in _items(document.value, source):
            yield Document(source, _checked(item, source))


def _items(value: object, source: str) -> Iterable[object]:
    """The items of a List, or the object itself."""
    if not isinstance(value, dict) or value.get("kind") != "List":
        return [value]
    items = value.get("items") or []
    if not isinstance(items, list):
        raise FileError(f"{source}: items of a List must be a list of objects, not {items!r:.60}")
    return items


def _checked(value: object, source: str) -> Manifest:
    if not isinstance(value, dict):
        raise FileError(
            f"{source}: an object with apiVersion, kind and metadata was expected, not {value!r:.60}"
        )
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str):
            raise FileError(f"{source}: {field} is missing; every object needs apiVersion, kind and metadata")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise FileError(f"{source}: {value['kind']} has no metadata.name")
    return value


async def apply(client: Client, document: Document, kind: Kind) -> Manifest:
    """Creates or updates the object; raises FileError with the server's reason."""
    manifest = document.manifest
    metadata = {**manifest["metadata"]}
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    manifest = {**manifest, "metadata": metadata}
    try:
        if not metadata.get("name"):
            return await client.create(kind, manifest)
        options = Options(
            patch_type=PatchType.APPLY, field_manager="volcano", force=True, field_validation="Strict"
        )
        return await client.patch(
            kind, Key(metadata.get("namespace", ""), metadata["name"]), manifest, options=options
        )
    except ApiError as error:
        raise FileError(f"{document.source}: {document.title}: {error.message}") from None

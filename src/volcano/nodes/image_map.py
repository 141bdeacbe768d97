"""Image maps: which host directories and programs stand for an image, where a runtime pulls none.

The file is YAML, `images` with one entry per pattern. The first entry that matches an image is used.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from volcano.base.yaml_dumper import dump
from volcano.base.yaml_loader import CONFIGURATION, YamlError, load_documents
from volcano.nodes.image_mapping import ImageMapping

LARGEST_USER = 2**31 - 1
MODES = ("ro", "rw")


class ImageMapError(ValueError):
    """An image map that cannot be used; the message names the entry, what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class MappedPath:
    """A directory or file of the host in a container."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ImageMap:
    """Mappings in order of precedence."""

    mappings: Sequence[ImageMapping] = ()

    def find(self, image: str) -> ImageMapping | None:
        """The first mapping whose pattern matches an image name, with or without its registry, tag or digest."""
        names = _names_of(image)
        for mapping in self.mappings:
            if any(fnmatchcase(name, mapping.pattern) for name in names):
                return mapping
        return None


def mapped_path(text: str) -> MappedPath:
    """Parses `SOURCE[:TARGET[:ro|rw]]`. Raises ValueError."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not target.startswith("/") and not mode:  # SOURCE:MODE
        target, mode = "", target
    if mode and mode not in MODES:
        raise ValueError(f"{text!r} ends with {mode!r}; write ro (read-only) or rw, as in /data:/data:rw")
    for path in (source, target or source):
        if not path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{text!r} is no absolute path; write SOURCE or SOURCE:TARGET[:ro|rw]")
    return MappedPath(source, target or source, writable=mode == "rw")


def parse(text: str, source: str) -> tuple[ImageMapping, ...]:
    """The mappings of a file. Raises ImageMapError; `source` is its name in messages."""
    try:
        documents = load_documents(text, CONFIGURATION)
    except YamlError as error:
        raise ImageMapError(f"{source}: not valid YAML: {error}") from None
    found: list[ImageMapping] = []
    for document in documents:
        if document.duplicates:
            raise ImageMapError(f"{source}: not valid YAML: {document.duplicates[0]}")
        if document.value is None:
            continue
        content = document.value
        if not isinstance(content, dict) or list(content) != ["images"] or not _is_list(content["images"]):
            raise ImageMapError(
                f"{source}: an image map is `images:` with a list of entries, not {_short(content)}"
            )
        found += [
            _mapping(entry, f"{source}: images[{n}]") for n, entry in enumerate(content["images"] or [])
        ]
    return tuple(found)


def as_yaml(mappings: Iterable[ImageMapping]) -> str:
    """The file that `parse` reads as these mappings."""
    entries = []
    for mapping in mappings:
        values = {
            "image": mapping.pattern,
            "paths": list(mapping.paths),
            "entrypoint": list(mapping.entrypoint),
            "args": list(mapping.arguments),
            "env": dict(mapping.environment),
            "user": mapping.user,
            "workingDir": mapping.working_directory,
        }
        entries.append({key: value for key, value in values.items() if value not in ([], {}, None, "")})
    return dump({"images": entries})


def _mapping(entry: Any, where: str) -> ImageMapping:
    if not isinstance(entry, dict):
        raise ImageMapError(f"{where}: an entry is an object with `image`, not {_short(entry)}")
    unknown = [key for key in entry if key not in FIELDS]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), FIELDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys are {', '.join(FIELDS)}"
        raise ImageMapError(f"{where}: unknown key {unknown[0]!r}{hint}")
    if "image" not in entry:
        raise ImageMapError(
            f"{where}: `image` is missing; give a pattern of image names, such as apache/spark:*"
        )
    where = f"{where} ({entry['image']})"
    values = {}
    for key, value in entry.items():
        attribute, read = FIELDS[key]
        try:
            values[attribute] = read(value)
        except ValueError as error:
            raise ImageMapError(f"{where}: {key}: {error}") from None
    return ImageMapping(**values)


def _pattern(value: Any) -> str:
    if not isinstance(value, str) or not value or any(letter.isspace() for letter in value):
        raise ValueError(f"{_short(value)} is no pattern of image names, such as apache/spark:*")
    return value


def _paths(value: Any) -> tuple[str, ...]:
    paths = _texts(value)
    for path in paths:
        mapped_path(path)
    return paths


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{_short(value)} is no list of strings; write [a, b], and quote numbers")
    return tuple(value)


def _program(value: Any) -> tuple[str, ...]:
    words = _texts(value)
    if not words or not words[0]:
        raise ValueError("is empty; give the program and its first arguments, such as [/opt/entrypoint.sh]")
    return words


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(
            f"{_short(value)} is no object of names and values, such as {{SPARK_HOME: /opt/spark}}"
        )
    for name, content in value.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise ValueError(f"{_short(name)} is no name of a variable")
        if not isinstance(content, str):
            raise ValueError(f"value of {name} is {_short(content)}, not a string; quote it")
    return dict(value)


def _user(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_USER:
        raise ValueError(f"{_short(value)} is no user id; give a number from 0 to {LARGEST_USER}")
    return value


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"{_short(value)} is no absolute path")
    return value


FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "image": ("pattern", _pattern),
    "paths": ("paths", _paths),
    "entrypoint": ("entrypoint", _program),
    "args": ("arguments", _texts),
    "env": ("environment", _environment),
    "user": ("user", _user),
    "workingDir": ("working_directory", _directory),
}


def _names_of(image: str) -> set[str]:
    """An image name as given and without the default registry, and both without tag and digest."""
    short = image.removeprefix("docker.io/").removeprefix("library/")
    return {form for name in (image, short) for form in (name, _without_tag(name))}


def _without_tag(name: str) -> str:
    name = name.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, list)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

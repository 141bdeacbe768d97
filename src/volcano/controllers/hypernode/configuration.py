"""Configuration of discovery: which sources of HyperNodes are enabled, and how."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.kube.api import duration
from volcano.kube.api.manifest import Key

LABEL_SOURCE = "label"
UFM_SOURCE = "ufm"
SOURCES = (LABEL_SOURCE, UFM_SOURCE)
SECTION = "networkTopologyDiscovery"
LONGEST_TYPE = 20
DEFAULT_INTERVAL = 3600.0
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class TopologyType:
    """One kind of network: its node labels from the narrowest to the widest, without the one of the host."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelSource:
    """Discovery from the labels of nodes."""

    types: tuple[TopologyType, ...] = ()


@dataclass(frozen=True, slots=True)
class UfmSource:
    """Discovery from a UFM server: its address without a trailing slash, and the Secret with the credentials."""

    endpoint: str
    secret: Key
    interval: float = DEFAULT_INTERVAL
    verify: bool = True


Source = LabelSource | UfmSource


@dataclass(frozen=True, slots=True)
class Discovery:
    """The enabled sources by name, and what is wrong with the others; each problem begins with the path of the key."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    # Sources whose entry cannot be used: their HyperNodes are neither updated nor reported as left behind.
    invalid: frozenset[str] = frozenset()


class _Unusable(ValueError):
    """An entry that cannot be used; the message begins with the path of the key."""


def parse_discovery(text: str, *, namespace: str) -> Discovery:
    """Parses the configuration; an invalid entry does not affect the others. Secrets are in `namespace` by default."""
    try:
        config = load_yaml(text).value or {}
        entries = _typed(_typed(config, dict, "the configuration").get(SECTION) or [], list, SECTION)
    except YamlError as error:
        return Discovery(problems=(f"not YAML: {error}",), invalid=frozenset(SOURCES))
    except _Unusable as error:
        return Discovery(problems=(str(error),), invalid=frozenset(SOURCES))
    sources: dict[str, Source] = {}
    problems: list[str] = []
    invalid: set[str] = set()
    for index, entry in enumerate(entries):
        path, name = f"{SECTION}[{index}]", ""
        try:
            entry = _typed(entry, dict, path)
            name = str(entry.get("source") or "")
            if name not in SOURCES:
                raise _Unusable(f"{path}.source: {name!r} is unknown; choose from {', '.join(SOURCES)}")
            if not _flag(entry.get("enabled"), f"{path}.enabled") or name in sources or name in invalid:
                continue
            if name == LABEL_SOURCE:
                sources[name] = LabelSource(tuple(_topology_types(entry, path, problems)))
            else:
                sources[name] = _ufm(entry, path, namespace)
        except _Unusable as error:
            problems.append(str(error))
            invalid.add(name)
    return Discovery(sources, tuple(problems), frozenset(invalid & set(SOURCES)))


def _topology_types(entry: Mapping[str, Any], path: str, problems: list[str]) -> Iterator[TopologyType]:
    """The usable types; those that are not are added to the problems."""
    path = f"{path}.config.networkTopologyTypes"
    config = _typed(entry.get("config") or {}, dict, path)
    for name, raw in _typed(config.get("networkTopologyTypes") or {}, dict, path).items():
        try:
            labels = list(_labels(raw, f"{path}.{name}"))
            if len(name) > LONGEST_TYPE:
                text = f"{path}.{name}: the name of a type has at most {LONGEST_TYPE} characters"
                raise _Unusable(text)
            yield TopologyType(name, tuple(reversed(labels[:-1])))
        except _Unusable as error:
            problems.append(str(error))


def _labels(raw: Any, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, level in enumerate(_typed(raw or [], list, path)):
        here = f"{path}[{index}].nodeLabel"
        label = str(_typed(level, dict, f"{path}[{index}]").get("nodeLabel") or "")
        if not _LABEL_KEY.fullmatch(label):
            raise _Unusable(f"{here}: {label!r} is not the key of a label; such as example.com/rack")
        if label in seen:
            raise _Unusable(f"{here}: the label {label} is listed twice; list each once, widest first")
        seen.add(label)
        yield label


def _ufm(entry: Mapping[str, Any], path: str, namespace: str) -> UfmSource:
    config = _typed(entry.get("config") or {}, dict, f"{path}.config")
    reference = _typed(entry.get("credentials") or {}, dict, f"{path}.credentials").get("secretRef") or {}
    reference = _typed(reference, dict, f"{path}.credentials.secretRef")
    if not reference.get("name"):
        text = f"{path}.credentials.secretRef.name: UFM authentication credentials are not configured; "
        raise _Unusable(text + "name a Secret with the keys username and password")
    return UfmSource(
        _endpoint(str(config.get("endpoint") or "").strip(), f"{path}.config.endpoint"),
        Key(str(reference.get("namespace") or namespace), str(reference["name"])),
        _interval(entry.get("interval"), f"{path}.interval"),
        verify=not _flag(config.get("insecureSkipVerify"), f"{path}.config.insecureSkipVerify"),
    )


def _endpoint(text: str, path: str) -> str:
    if not text:
        raise _Unusable(f"{path}: UFM endpoint is not configured; such as https://ufm.example.com")
    url = (text if "://" in text else f"https://{text}").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and not parts.username
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise _Unusable(f"{path}: {text!r} must look like https://host:port; credentials are in a Secret")
    return url


def _interval(value: Any, path: str) -> float:
    if value is None:
        return DEFAULT_INTERVAL
    try:
        seconds = float(value) / 1e9 if isinstance(value, int | float) else duration.parse(str(value))
    except ValueError as error:
        raise _Unusable(f"{path}: {error}") from None
    return seconds if seconds > 0 else DEFAULT_INTERVAL


def _flag(value: Any, path: str) -> bool:
    """A boolean, also as a number or text, as lenient decoders accept it."""
    match value:
        case None | "" | False | 0 | "false" | "False" | "0":
            return False
        case True | 1 | "true" | "True" | "1":
            return True
    raise _Unusable(f"{path}: {value!r} must be true or false")


def _typed(value: Any, wanted: type[dict[str, Any]] | type[list[Any]], path: str) -> Any:
    if isinstance(value, wanted):
        return value
    raise _Unusable(f"{path}: must be a {'map' if wanted is dict else 'list'}, not {value!r:.60}")


def usable_levels(types: Sequence[TopologyType]) -> list[TopologyType]:
    """Types that yield HyperNodes; one that lists only the label of the host yields none."""
    return [kind for kind in types if kind.levels]

"""YAML bodies as JSON values: no timestamps, string keys, bounded size."""

import math
import re
from typing import Any

import yaml

MAX_NODES = 1_000_000
LOAD_ERRORS = (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError)


_SURROGATE = re.compile("[\ud800-\udfff]")


class YamlError(ValueError):
    """Text that is not YAML or has no JSON form."""


class _Loader(yaml.CSafeLoader):
    """Loads YAML 1.1 as Kubernetes does: timestamps and base-60 numbers stay strings."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Any:
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    yield result
    for key_node, value_node in node.value:
        key = _key_text(loader.construct_object(key_node, deep=True))
        if key in result:
            line = key_node.start_mark.line + 1
            loader.duplicates.append(f'line {line}: key "{key}" already set in map')
        result[key] = loader.construct_object(value_node, deep=True)


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None or isinstance(key, str | int | float):
        return "null" if key is None else str(key)
    raise YamlError(f"map keys must be text or numbers, not {type(key).__name__}")


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0b[01]+|[-+]?0o?[0-7]+|[-+]?(?:0|[1-9][0-9]*)|[-+]?0x[0-9a-fA-F]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    if re.fullmatch(r"[-+]?0[0-7]+", text):
        return int(text, 8)
    return int(text, 0) if not re.fullmatch(r"[-+]?[0-9]+", text) else int(text)


def _float(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node)).lower().replace(".inf", "inf").replace(".nan", "nan")
    return float(text)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def load_yaml(text: bytes) -> tuple[Any, list[str]]:
    """Returns the first document as a JSON value, and an error message for each duplicate key. Raises `YamlError`."""
    loader = _Loader(text)
    try:
        value = loader.get_single_data()
    except LOAD_ERRORS as error:
        raise _yaml_error(error) from error
    finally:
        loader.dispose()
    _check(value)
    return value, loader.duplicates


def load_documents(text: bytes) -> list[tuple[int, Any]]:
    """Returns every document of a file as a JSON value, with its first line. Raises `YamlError`."""
    loader = _Loader(text)
    documents: list[tuple[int, Any]] = []
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            documents.append((node.start_mark.line + 1, loader.construct_document(node)))
            _check(documents[-1][1])
    except LOAD_ERRORS as error:
        raise _yaml_error(error) from error
    finally:
        loader.dispose()
    if loader.duplicates:
        raise YamlError(loader.duplicates[0])
    return documents


def _yaml_error(error: Exception) -> YamlError:
    return YamlError(" ".join(str(error).split()) or "nested too deeply")


def _check(value: Any) -> None:
    """Rejects values without a JSON form, and documents that are too large once their aliases are expanded."""
    left, nodes = [value], 0
    while left:
        current = left.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise YamlError(f"the document has more than {MAX_NODES} values once its aliases are unfolded")
        if isinstance(current, dict):
            left.extend(current.values())
        elif isinstance(current, list):
            left.extend(current)
        elif isinstance(current, float) and not math.isfinite(current):
            raise YamlError("numbers must be finite")
        elif not isinstance(current, str | int | float | bool | None):
            raise YamlError(f"values of type {type(current).__name__} have no JSON form")
        elif isinstance(current, str) and not current.isascii() and _SURROGATE.search(current):
            raise YamlError("text must be of characters that UTF-8 has")
        elif isinstance(current, int) and not -(2**63) <= current < 2**64:
            raise YamlError("whole numbers must fit in 64 bits")

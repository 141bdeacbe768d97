"""Printers of custom resources, from the additionalPrinterColumns of their CRD."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from volcano.apiserver.endpoints.tables.cells import AGE, NAME, Printer, age
from volcano.apiserver.interfaces import Column
from volcano.kube.api.duration import since
from volcano.kube.api.fields import name_of, wall_time
from volcano.kube.api.jsonpath import JsonPath, compile_path
from volcano.kube.api.manifest import Manifest


@lru_cache(maxsize=1024)
def custom_printer(columns: tuple[Column, ...]) -> Printer:
    """Printer with NAME and the columns of the CRD, or AGE if it has none."""
    if not columns:
        return Printer((NAME, AGE), lambda manifest, now: [name_of(manifest), age(manifest, now)])
    sources = [(compile_path(column.json_path), column.type) for column in columns]

    def cells(manifest: Manifest, now: float) -> list[Any]:
        return [name_of(manifest), *(_cell(path, kind, manifest, now) for path, kind in sources)]

    return Printer((NAME, *columns), cells)


def _cell(path: JsonPath, kind: str, manifest: Manifest, now: float) -> Any:
    value = path.first(manifest)
    if value is None:
        return None
    if kind == "date":
        return _date(value, now)
    convert = CONVERSIONS.get(kind)
    return convert(value) if convert else None


def _date(value: Any, now: float) -> Any:
    if not isinstance(value, str):
        return None
    return "<invalid>" if wall_time(value) is None else since(value, now)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else orjson.dumps(value).decode()


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


# Conversion of a value of any JSON type to the declared type of a column; None leaves the cell empty.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}

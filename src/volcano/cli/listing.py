"""Lists of objects: fetch, filter, sort, print in any format, and follow with `--watch`."""

import argparse
import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from volcano.cli.errors import UsageError, value_of
from volcano.cli.objects import namespace
from volcano.cli.printing.output import is_table, render_all, render_one
from volcano.cli.printing.tables import THREE_MORE, Column, Layout, Width, selected
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden, Gone, Unavailable
from volcano.kube.api.jsonpath import compile_path
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.quantity import parse as parse_quantity
from volcano.kube.client.protocol import EventType, Query

NOTHING = "No resources found"
COLLECT_SECONDS = 0.2  # seconds in which changes are collected before printing
PAUSE = 1.0

# Objects a list needs, by kind.
Objects = Mapping[Kind, Sequence[Manifest]]


@dataclass(frozen=True, slots=True)
class Listing:
    """Definition of a list: kind, filter, and columns that may use objects of other kinds."""

    kind: Kind
    columns: Callable[[Objects], Sequence[Column]]
    keep: Callable[[Manifest], bool] = lambda manifest: True
    also: tuple[Kind, ...] = ()  # what the user may not list is empty
    labels: str = ""  # in addition to -l
    sort: Callable[[Manifest], Any] = key_of
    namespace_column: int | None = 0  # position with -A; None if the columns contain it anyway
    namespace_width: Width = THREE_MORE


async def show(listing: Listing, arguments: argparse.Namespace, session: Session) -> int:
    """Prints the list; with `--watch`, also changes and deletions."""
    view = _View(listing, arguments, session)
    await view.fetch()
    view.print_all()
    if arguments.watch:
        session.stdout.flush()
        await view.follow()
    return 0


async def show_one(
    listing: Listing, item: Manifest, arguments: argparse.Namespace, session: Session, *, namespace: str = ""
) -> int:
    """Prints one object as a row of the list."""
    if not is_table(arguments.output):
        text = render_one(arguments.output, listing.kind, item)
        session.write(text, end="" if arguments.output.startswith("jsonpath") else "\n")
        return 0
    objects: dict[Kind, Sequence[Manifest]] = {listing.kind: [item]}
    for kind in listing.also:
        objects[kind] = (await session.client.list(kind, Query(namespace=namespace))).items
    session.table(listing.columns(objects), [item], wide=arguments.output == "wide", padded=True)
    return 0


class _View:
    """State of one list while it is printed."""

    def __init__(self, listing: Listing, arguments: argparse.Namespace, session: Session) -> None:
        self._listing = listing
        self._arguments = arguments
        self._session = session
        inside = namespace(arguments, session) if listing.kind.namespaced else ""
        self._everywhere = listing.kind.namespaced and not inside
        labels = ",".join(filter(None, (listing.labels, arguments.label_selector)))
        self._queries = {kind: Query(namespace=inside if kind.namespaced else "") for kind in listing.also}
        self._queries[listing.kind] = Query(namespace=inside, labels=labels)
        self._held: dict[Kind, dict[Key, Manifest]] = {}
        self._versions: dict[Kind, str] = {}
        self._layout: Layout | None = None
        self._printed: dict[Key, str] = {}
        self._gone: list[Manifest] = []  # deleted objects in their last state, not printed yet

    async def fetch(self) -> None:
        """Lists every kind needed."""
        for kind in list(self._queries):
            await self._list(kind)

    async def _list(self, kind: Kind) -> None:
        try:
            found = await self._session.client.list(kind, self._queries[kind])
        except Forbidden:
            if kind not in self._listing.also:
                raise
            self._queries = {known: query for known, query in self._queries.items() if known != kind}
            self._held[kind] = {}
            return
        held = {key_of(item): item for item in found.items}
        for key in self._held.get(kind, {}).keys() - held.keys():
            self._lose(kind, self._held[kind][key])
        self._held[kind] = held
        self._versions[kind] = found.resource_version

    def print_all(self) -> None:
        """Prints the whole list."""
        items, columns = self._items(), self._columns()
        output = self._arguments.output
        if not is_table(output):
            if not self._arguments.watch:
                self._write(render_all(output, self._listing.kind, items))
            else:
                for item in items:
                    self._print_one(item)
            return
        if not items and not self._arguments.watch:
            self._session.write(NOTHING)
            return
        session = self._session
        self._layout = Layout(
            columns, items, terminal=session.terminal, colour=session.colour, room=session.width
        )
        if not self._arguments.no_headers:
            session.write(self._layout.header())
        for item in items:
            self._print_one(item)

    def _write(self, text: str) -> None:
        if text:
            ended = self._arguments.output.startswith("jsonpath")
            self._session.write(text, end="" if ended else "\n")

    def _print_one(self, item: Manifest) -> None:
        output = self._arguments.output
        text = self._layout.row(item) if self._layout else render_one(output, self._listing.kind, item)
        if self._printed.get(key_of(item)) != text:
            self._printed[key_of(item)] = text
            self._session.write("---\n" + text if output == "yaml" else text)

    # rows

    def _objects(self) -> Objects:
        return {kind: list(held.values()) for kind, held in self._held.items()}

    def _items(self) -> list[Manifest]:
        kept = [item for item in self._objects()[self._listing.kind] if self._listing.keep(item)]
        kept.sort(key=self._listing.sort)
        if self._arguments.sort_by:
            kept.sort(key=sorter(self._arguments.sort_by, self._columns()))
        return kept

    def _columns(self) -> list[Column]:
        wide = self._arguments.output == "wide"
        columns = selected(self._listing.columns(self._objects()), wide=wide, terminal=self._session.terminal)
        if self._everywhere and self._listing.namespace_column is not None:
            column = Column("Namespace", lambda item: key_of(item).namespace, self._listing.namespace_width)
            columns.insert(self._listing.namespace_column, column)
        return columns

    # changes

    async def follow(self) -> None:
        """Prints changed objects until cancelled."""
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for kind in self._queries:
                group.create_task(self._watch(kind, changed))
            group.create_task(self._print_changes(changed))

    async def _print_changes(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            await self._session.clock.sleep(COLLECT_SECONDS)
            changed.clear()
            if self._layout is not None:
                self._layout.renew(self._columns())
            self._print_gone()
            items = self._items()
            for item in items:
                self._print_one(item)
            there = {key_of(item) for item in items}
            self._printed = {key: text for key, text in self._printed.items() if key in there}
            self._session.stdout.flush()

    def _print_gone(self) -> None:
        """Prints deleted objects once more in their last state, as kubectl does."""
        gone, self._gone = self._gone, []
        for item in gone:
            self._printed.pop(key_of(item), None)
            self._print_one(item)
            del self._printed[key_of(item)]

    def _lose(self, kind: Kind, item: Manifest) -> None:
        if kind == self._listing.kind and self._listing.keep(item):
            self._gone.append(item)

    async def _watch(self, kind: Kind, changed: asyncio.Event) -> None:
        while True:
            query = replace(self._queries[kind], resource_version=self._versions[kind])
            try:
                async for event in self._session.client.watch(kind, query):
                    self._versions[kind] = event.object["metadata"]["resourceVersion"]
                    if event.type is EventType.BOOKMARK:
                        continue
                    if event.type is EventType.DELETED:
                        self._held[kind].pop(key_of(event.object), None)
                        self._lose(kind, event.object)
                    else:
                        self._held[kind][key_of(event.object)] = event.object
                    changed.set()
            except (Gone, Unavailable):
                await self._session.clock.sleep(PAUSE)
                with suppress(Unavailable):
                    await self._list(kind)
                    changed.set()


def sorter(field: str, columns: Iterable[Column]) -> Callable[[Manifest], Any]:
    """Sort key for `--sort-by`: a column's header or a path into the object."""
    by_header = {column.header.lower(): column for column in columns}
    if field.lower() in by_header:
        value = by_header[field.lower()].value
        return lambda item: _comparable(value(item))
    if not field.startswith((".", "{", "$", "[")):
        raise UsageError(
            f"--sort-by: {field!r} is neither a path such as .metadata.name nor one of the columns "
            f"{', '.join(column.header for column in columns)}"
        )
    with value_of("--sort-by"):
        path = compile_path(field)
    return lambda item: _comparable(path.first(item))


def _comparable(value: Any) -> tuple[int, Any]:
    """Missing values first, then numbers and quantities by size, then text."""
    if value is None:
        return (0, 0)
    try:
        return (1, parse_quantity(str(value)))
    except ValueError:
        return (2, str(value))

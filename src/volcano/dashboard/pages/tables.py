"""Tables of many rows: filtered and sorted here, and sent to the browser one page at a time.

Ten thousand rows cost a viewer as much as fifty. Order and page are in the address, so that a link shows the same.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nicegui import events, ui

from volcano.dashboard.context import Context

Item = TypeVar("Item")
ROWS = 50
# How a cell is drawn. Values are escaped by the template; none is ever HTML.
TEXT = ""
LINK = '<a class="volcano-link" :href="props.value.href">{{ props.value.text }}</a>'
TIME = '<span :title="props.value.title">{{ props.value.text }}</span>'  # an age, and when that was
PHASE = (
    '<span style="display: inline-flex; align-items: center; gap: .5rem"><span aria-hidden="true" :style="'
    "{width: '.65rem', height: '.65rem', borderRadius: '50%', background: props.value.colour}"
    '"></span>{{ props.value.text }}</span>'
)
BAR = (
    '<span style="display: inline-flex; align-items: center; gap: .5rem">'
    "<q-linear-progress :value=\"props.value.part\" :color=\"props.value.part > 1 ? 'negative' : 'primary'\" "
    'class="volcano-part" style="width: 4rem" rounded aria-hidden="true" /><span>{{ props.value.text }}</span></span>'
)


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """One column: what a cell shows, by what the column is sorted, and how the cell is drawn."""

    name: str  # in the address
    label: str
    value: Callable[[Item], Any]  # text, or what the template needs
    order: Callable[[Item], Any] | None = None  # not sortable without one
    template: str = TEXT
    align: str = "left"
    wide_only: bool = False  # hidden on narrow screens


class PagedTable(Generic[Item]):
    """A table on a page. `show` is called with all items whenever they change."""

    def __init__(
        self,
        context: Context,
        columns: Sequence[Column[Item]],
        *,
        key: Callable[[Item], str],
        label: str,
        order: str,
        descending: bool = False,
        on_select: Callable[[list[str]], None] | None = None,
        prefix: str = "",
        empty: str = "Nothing to show.",
        sections: bool = False,
    ) -> None:
        """`order` is the column by which the table is sorted at first; `prefix` separates several tables of one page in
        the address; `on_select` is called with the keys of the selected rows; `sections` allows `section_by`."""
        self._context = context
        self._columns = {column.name: column for column in columns}
        self._key = key
        self._prefix = prefix
        self._default = (order, descending)
        self._items: Sequence[Item] = ()
        self._on_select = on_select
        self._section_of: Callable[[Item], str] | None = None
        sort = context.query.get(f"{prefix}sort", "")
        self._order, self._descending = (
            (sort.lstrip("-"), sort.startswith("-")) if sort.lstrip("-") in self._columns else self._default
        )
        page = context.query.get(f"{prefix}page", "")
        self._page = int(page) if page.isdecimal() and int(page) > 0 else 1
        self.table = ui.table(
            rows=[],
            columns=[_described(column) for column in columns],
            row_key="id",
            selection="multiple" if on_select else None,
            pagination=self._pagination(0),
        )
        self.table.classes("w-full").props(
            f'flat dense binary-state-sort role=region aria-label="{label}" no-data-label="{empty}" '
            ":rows-per-page-options=[20,50,100,200]"
        )
        self.table.props[":selected-rows-label"] = "count => count + ' selected'"
        self.table.add_slot("no-data", '<span class="volcano-muted q-pa-sm">{{ props.message }}</span>')
        if sections:
            self.table.add_slot("body", _body(columns, selectable=on_select is not None))
        for column in columns:
            if column.template and not sections:
                self.table.add_slot(
                    f"body-cell-{column.name}", f'<q-td :props="props">{column.template}</q-td>'
                )
        self.table.on("request", self._on_request, ["pagination"])
        self.table.on_pagination_change(self._on_pagination_of_browser)
        if on_select:
            self.table.on_select(self._selected)

    @property
    def selected(self) -> list[str]:
        """Keys of the selected rows, of all pages."""
        return [str(row["id"]) for row in self.table.selected]

    def clear_selection(self) -> None:
        self.table.selected = []
        self._selected(None)

    def select(self, keys: Sequence[str]) -> None:
        """Selects these rows, whether they are on this page or not."""
        self.table.selected = [{"id": key} for key in keys]
        self._selected(None)

    def section_by(self, section_of: Callable[[Item], str] | None) -> None:
        """Puts rows of one section together, below a line with its name and size. None removes the sections."""
        self._section_of = section_of
        self._render()

    def show(self, items: Sequence[Item]) -> None:
        """Shows these items; the browser gets the rows of the current page if they differ."""
        self._items = items
        self._render()

    def _render(self) -> None:
        rows_per_page = int(self.table.pagination.get("rowsPerPage") or ROWS)
        if self._items:  # before there are any, the page of the address is kept
            self._page = min(self._page, -(-len(self._items) // rows_per_page))
        order = self._columns[self._order].order or self._columns[self._order].value
        ordered = sorted(self._items, key=order, reverse=self._descending)
        first = (self._page - 1) * rows_per_page
        sizes = Counter(map(self._section_of, ordered)) if self._section_of is not None else Counter()
        if self._section_of is not None:
            ordered.sort(key=self._section_of)
        shown = ordered[first : first + rows_per_page]
        rows = [self._row(item) for item in shown]
        if self._section_of is not None:
            _mark_sections(rows, [self._section_of(item) for item in shown], sizes)
        if rows != self.table.rows:
            self.table.rows = rows
        pagination = self._pagination(len(self._items))
        if pagination != self.table.pagination:
            self.table.pagination = pagination

    def _row(self, item: Item) -> dict[str, Any]:
        return {
            "id": self._key(item),
            **{column.name: column.value(item) for column in self._columns.values()},
        }

    def _pagination(self, count: int) -> dict[str, Any]:
        known = self.table.pagination if hasattr(self, "table") else {}
        return {
            "sortBy": self._order,
            "descending": self._descending,
            "page": self._page,
            "rowsPerPage": int(known.get("rowsPerPage") or ROWS),
            "rowsNumber": count,
        }

    def _on_request(self, event: events.GenericEventArguments) -> None:
        wanted = event.args["pagination"] if isinstance(event.args, dict) else event.args[0]["pagination"]
        order = str(wanted.get("sortBy") or self._default[0])
        self._order = order if order in self._columns else self._default[0]
        self._descending = bool(wanted.get("descending"))
        self._page = max(1, int(wanted.get("page") or 1))
        self.table.pagination = {
            **self._pagination(len(self._items)),
            "rowsPerPage": int(wanted["rowsPerPage"]),
        }
        sort = f"{'-' if self._descending else ''}{self._order}"
        unchanged = (self._order, self._descending) == self._default
        self._context.set_query(
            **{
                f"{self._prefix}sort": "" if unchanged else sort,
                f"{self._prefix}page": str(self._page) if self._page > 1 else "",
            }
        )
        self._render()

    def _on_pagination_of_browser(self, _event: object) -> None:
        """A browser repeats the number of rows that it was given first, also when there are others by then."""
        if self.table.pagination.get("rowsNumber") != len(self._items):
            self.table.pagination = self._pagination(len(self._items))

    def _selected(self, _event: object) -> None:
        if self._on_select is not None:
            self._on_select(self.selected)


def _mark_sections(rows: Sequence[dict[str, Any]], sections: Sequence[str], sizes: Counter[str]) -> None:
    """Adds the name and size of its section to the first row of each."""
    before = None
    for row, section in zip(rows, sections, strict=True):
        if section != before:
            row["section"] = {"name": section, "size": sizes[section]}
        before = section


def _body(columns: Sequence[Column[Any]], *, selectable: bool) -> str:
    """Template of a row with the line of its section above it."""
    check = (
        '<q-td auto-width><q-checkbox dense v-model="props.selected" :aria-label="\'Select \' + props.row.id" /></q-td>'
        if selectable
        else ""
    )
    cells = "".join(f'<q-td key="{column.name}" :props="props">{_cell(column)}</q-td>' for column in columns)
    return (
        '<q-tr v-if="props.row.section" class="volcano-section"><q-td colspan="100%">'
        '<b>{{ props.row.section.name }}</b> <span class="volcano-muted">{{ props.row.section.size }}</span>'
        f'</q-td></q-tr><q-tr :props="props">{check}{cells}</q-tr>'
    )


def _cell(column: Column[Any]) -> str:
    return (column.template or "{{ props.value }}").replace("props.value", f"props.row['{column.name}']")


def _described(column: Column[Any]) -> dict[str, Any]:
    hidden = "gt-sm" if column.wide_only else ""
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "sortable": column.order is not None,
        "align": column.align,
        "classes": hidden,
        "headerClasses": hidden,
    }

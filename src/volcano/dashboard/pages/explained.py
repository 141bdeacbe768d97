"""Explanations of `vcctl explain` on a page: the same data, with the columns of the command."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from volcano.cli.explain import screens
from volcano.cli.explain.layout import amount_text, listed, short
from volcano.cli.printing.tables import Column
from volcano.dashboard.pages.widgets import Cell, card, facts, heading, small_table
from volcano.kube.api.manifest import Key
from volcano.views.times import span

Data = Mapping[str, Any]
CLASS_COLOURS = {"NEVER": "bad", "CONFIG": "bad", "POLICY": "warn", "CAPACITY": "warn", "IN_PROGRESS": "good"}
MARKS = {
    True: ("check_circle", "good", "passed"),
    False: ("cancel", "bad", "not passed"),
    None: ("remove", "idle", ""),
}
BASIS = {
    "walltime": "the walltimes of jobs",
    "history": "the run times of finished jobs like those it waits for",
}
# Columns of commands that name something with a page of its own.
ADDRESSES = {"JOB": "/jobs/", "NODE": "/nodes/", "QUEUE": "/queues/"}
MOST_ENTRIES = 50
ROWS = 20  # of a table at a time


def explain_arguments(
    key: Key, parts: Sequence[str] = (), moment: str = "", reruns: int = 0
) -> argparse.Namespace:
    """Arguments of `vcctl explain` for one object; `moment` is a time or the number of a cycle, "" for now; `reruns`
    limits the search for changes, 0 for as many as take a moment."""
    cycle = moment if moment.isdecimal() else ""
    return argparse.Namespace(
        key=key, cycle=cycle, at="" if cycle else moment, verbose=list(parts), reruns=reruns
    )  # fmt: skip


def show_summary(found: Data) -> None:
    """The sentence that says it all, in the colour of its class."""
    colour = CLASS_COLOURS.get((found.get("diagnosis") or {}).get("class", ""), "info")
    with (
        ui.element("p")
        .classes("text-base font-semibold m-0 q-pl-sm")
        .style(f"border-left: 4px solid var(--volcano-{colour})")
    ):
        ui.label(short(str(found.get("summary", ""))))


def show_job(found: Data, now: float) -> None:
    """Everything about a job that `vcctl explain job` prints, without the parts of -v."""
    diagnosis = found.get("diagnosis") or {}
    with card():
        show_summary(found)
        pairs = {
            "Code": _code(diagnosis),
            "Since": ago(diagnosis.get("since") or 0.0, now),
            "Queue": found.get("queue"),
            "User": found.get("user"),
            "Priority": found.get("priority"),
            "Reserved": found.get("reserved"),
            "Size": _size(found.get("pods") or {}, found.get("requests") or {}),
            "Message": _unsaid(found),
            "Nodes": _nodes(found),
        }
        with ui.element("div").classes("q-mt-sm"):
            facts((name, str(value)) for name, value in pairs.items() if value not in (None, "", 0))
    if found.get("steps"):
        with card("Steps"):
            show_steps(found["steps"])
    if found.get("position"):
        _position(found["position"])
    if found.get("state") == "waiting" and "changes" in found:
        _estimate(found.get("estimate"))
        _changes(found["changes"])
    if found.get("history"):
        with card("History"):
            show_history(found["history"], now)
    show_notes(found.get("notes") or ())


def show_pod(found: Data, now: float) -> None:
    """Why a pod has its node, with the scores of the runners-up, or why it has none."""
    show_summary(found)
    if found.get("ranking"):
        heading("Scores", 2)
        feasible = found["feasible"]
        ui.label(f"Nodes that could take it: {feasible}; {found['basis']}.").classes("volcano-muted")
        show_table(_score_columns(found["ranking"], found["node"]), found["ranking"])
    if found.get("nodes"):
        nodes = found["nodes"]
        heading("Nodes", 2)
        ui.label(f"{nodes['withRoom']} of {nodes['total']} have room now.").classes("volcano-muted")
        rows = sorted(nodes["reasons"].items(), key=lambda each: -each[1])
        show_table((Column("Nodes", lambda row: str(row[1])), Column("Reason", lambda row: row[0])), rows)
    for each in found.get("evictions") or ():
        heading(f"Eviction in cycle {each['cycle']}, {ago(each['at'], now)}", 2)
        facts(
            (name, value)
            for name, value in (
                ("From", each["node"]),
                ("By", each["action"]),
                ("For", short(each.get("beneficiary", ""))),
                ("Why", short(each["why"])),
            )
            if value
        )
    if found.get("history"):
        heading("History", 2)
        show_history(found["history"], now)
    show_notes(found.get("notes") or ())


def show_details(part: str, rows: Sequence[Data]) -> None:
    """One part of -v: nodes, scores, victims or plugins."""
    if not rows:
        ui.label("Nothing to show.").classes("volcano-muted")
    show_table(screens.DETAILS[part], rows)


def show_steps(steps: Sequence[Data]) -> None:
    """One line per step with its mark, and the amounts that are not enough."""
    with ui.element("div").classes("volcano-step"):
        for step in steps:
            icon, colour, said = MARKS[step["ok"]]
            mark = ui.icon(icon, size="sm").style(f"color: var(--volcano-{colour})")
            mark.props(f'role="img" aria-hidden="false" aria-label="{said}"' if said else "aria-hidden=true")
            ui.label(step["step"]).classes("font-semibold")
            with ui.element("div"):
                ui.label(short(step["text"]))
                for amount in step["amounts"] if step["ok"] is False else ():
                    if not amount["enough"]:
                        ui.label(amount_text(amount)).classes("volcano-muted")


def show_history(entries: Sequence[Data], now: float) -> None:
    """Entries of the record of cycles, the latest first."""
    columns = (
        Column("Age", lambda entry: ago(entry["at"], now)),
        Column("Cycle", lambda entry: str(entry.get("number") or "")),
        Column("What", lambda entry: " ".join(filter(None, (entry["what"], entry.get("code", ""))))),
        Column("Text", lambda entry: short(entry.get("text", ""))),
    )
    if len(entries) > MOST_ENTRIES:
        ui.label(f"The last {MOST_ENTRIES} of {len(entries)}.").classes("volcano-muted")
    show_table(columns, list(reversed(entries))[:MOST_ENTRIES])


def show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        ui.label(f"Note: {note}").classes("volcano-muted")


def show_table(columns: Sequence[Column], rows: Sequence[Any]) -> None:
    """A table with the columns of a command; names of jobs and nodes are links."""
    if not rows:
        return
    table = small_table(
        _title(columns[0].header),
        [_title(column.header) for column in columns],
        [[_linked(column, column.value(row).strip()) for column in columns] for row in rows],
    )
    if len(rows) > ROWS:
        table.pagination = {"rowsPerPage": ROWS}
        table.props(remove="hide-bottom")


def _linked(column: Column, value: str) -> Cell:
    address = ADDRESSES.get(column.header)
    return (value, address + value) if address and value else value


def ago(moment: float, now: float) -> str:
    """`5m ago`; "" without a time."""
    return f"{span(max(now - moment, 0))} ago" if moment else ""


def _title(header: str) -> str:
    return header.capitalize() if header.isupper() else header


def _unsaid(found: Data) -> str:
    """Message of the diagnosis, unless a step has it."""
    message = str((found.get("diagnosis") or {}).get("message") or "")
    return "" if any(step["text"] == message for step in found.get("steps") or ()) else message


def _code(diagnosis: Data) -> str:
    code, group = diagnosis.get("code"), diagnosis.get("class")
    return f"{code} ({group})" if code and group else str(code or "")


def _size(pods: Data, requests: Mapping[str, str]) -> str:
    if not pods:
        return ""
    count = pods["total"] or pods["minimum"]
    text = f"{count} {'pod' if count == 1 else 'pods'}, at least {pods['minimum']} together"
    return f"{text}; {listed(requests)}" if requests else text


def _nodes(found: Data) -> str:
    if found.get("state") == "waiting":
        return ""
    return ", ".join(f"{name} ({count})" for name, count in sorted((found.get("nodes") or {}).items()))


def _position(position: Data) -> None:
    with card("Position"):
        ui.label(f"Number {position['place']} of {position['of']} waiting jobs in the queue.")
        if not position["ahead"]:
            ui.label("No job is ahead of it.").classes("volcano-muted")
            return
        show_table(screens.JOB_COLUMNS, position["ahead"])
        if position["more"]:
            ui.label(f"And {position['more']} more; {position['podsAhead']} pods are ahead in all.").classes(
                "volcano-muted"
            )


def _estimate(estimate: Data | None) -> None:
    with card("Estimate"):
        if not estimate:
            ui.label("No estimate can be given.").classes("volcano-muted")
            return
        first, last = (span(seconds) for seconds in estimate["inSeconds"])
        ui.label(f"Starts in {first} to {last}, in eight of ten cases; by {BASIS[estimate['basis']]}.")
        if estimate["waitsFor"]:
            ui.label(f"Waits for {', '.join(estimate['waitsFor'])}.").classes("volcano-muted")


def _changes(changes: Sequence[Data]) -> None:
    with card("Changes that would start it now"):
        ui.label("Each verified by running the scheduler on the changed cluster.").classes("volcano-muted")
        if not changes:
            ui.label("None was found that changes one thing only.")
        with ui.element("ul").classes("m-0 list-disc pl-6"):
            for each in changes:
                with ui.element("li"):
                    ui.label(each["change"])


def _score_columns(rows: Sequence[Data], node: str) -> list[Column]:
    plugins = list(dict.fromkeys(name for row in rows for name in row["plugins"]))

    def points(name: str) -> Column:
        return Column(name, lambda row: f"{row['plugins'].get(name, 0):g}")

    return [
        Column("Place", lambda row: str(row.get("place", ""))),
        Column("", lambda row: "its node" if row["node"] == node else ""),
        Column("NODE", lambda row: row["node"]),
        Column("Score", lambda row: f"{row['score']:g}"),
        *map(points, plugins),
        Column("Free", lambda row: listed(row["free"])),
    ]

"""Screens of `vcctl explain`: one per kind of explanation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volcano.base.clock import timestamp
from volcano.cli.explain.layout import CLASS_STYLES, Page, listed, short
from volcano.cli.printing.tables import Column
from volcano.views.amounts import quantity_shown
from volcano.views.times import span

Data = Mapping[str, Any]
SHOWN_ENTRIES = 8
SHOWN_JOBS = 10


def show(page: Page, found: Data) -> None:
    """Prints an explanation of any kind."""
    SCREENS[found["kind"]](page, found)
    page.notes(found.get("notes", ()))


def _job(page: Page, found: Data) -> None:
    diagnosis = found.get("diagnosis") or {}
    page.summary(short(found["summary"]), CLASS_STYLES.get(diagnosis.get("class", ""), ""))
    since = page.ago(diagnosis.get("since", 0.0))
    pods = found.get("pods") or {}
    page.facts(
        {
            "Job": found["job"],
            "Code": f"{diagnosis['code']} ({diagnosis['class']})"
            if diagnosis.get("class")
            else diagnosis.get("code"),
            "Since": since,
            "Queue": found.get("queue"),
            "User": found.get("user"),
            "Priority": found.get("priority") or None,
            "Reserved": found.get("reserved"),
            "Size": _size(pods, found.get("requests") or {}),
            "Message": diagnosis.get("message") if not _is_said(found) else None,
        }
    )
    if found.get("steps"):
        page.heading("Steps")
        page.steps(found["steps"])
    _position(page, found.get("position"))
    if found.get("state") == "waiting" and "changes" in found:
        _estimate(page, found.get("estimate"))
        _changes(page, found["changes"])
    if found.get("nodes") and found.get("state") != "waiting":
        page.heading("Nodes")
        page.line(", ".join(f"{name} ({count})" for name, count in sorted(found["nodes"].items())))
    _details(page, found)
    _history(page, found.get("history", ()))


def _details(page: Page, found: Data) -> None:
    for part, rows in (found.get("details") or {}).items():
        page.heading(part.capitalize())
        page.table(DETAILS[part], rows)
        if not rows:
            page.line("nothing to show")


def _is_said(found: Data) -> bool:
    """Whether a step has the message of the diagnosis."""
    message = (found.get("diagnosis") or {}).get("message")
    return any(step["text"] == message for step in found.get("steps") or ())


def _size(pods: Data, requests: Mapping[str, str]) -> str:
    if not pods:
        return ""
    count = pods["total"] or pods["minimum"]
    text = f"{count} {'pod' if count == 1 else 'pods'}, at least {pods['minimum']} together"
    return f"{text}; {listed(requests)}" if requests else text


def _position(page: Page, position: Data | None) -> None:
    if not position:
        return
    page.heading("Position", f"number {position['place']} of {position['of']} waiting jobs in the queue")
    if not position["ahead"]:
        page.line("no job is ahead of it")
        return
    page.table(JOB_COLUMNS, position["ahead"])
    if position["more"]:
        page.line(f"and {position['more']} more; {position['podsAhead']} pods are ahead in all")


def _estimate(page: Page, estimate: Data | None) -> None:
    page.heading("Estimate")
    if not estimate:
        page.line("no estimate can be given")
        return
    first, last = (span(seconds) for seconds in estimate["inSeconds"])
    basis = {
        "walltime": "the walltimes of jobs",
        "history": "the run times of finished jobs like those it waits for",
    }
    page.line(f"starts in {first} to {last}, in eight of ten cases; by {basis[estimate['basis']]}")
    if estimate["waitsFor"]:
        page.line(f"waits for {', '.join(estimate['waitsFor'])}")


def _changes(page: Page, changes: Sequence[Data]) -> None:
    page.heading(
        "Changes that would start it now", "each verified by running the scheduler on the changed cluster"
    )
    if not changes:
        page.line("none was found that changes one thing only")
    for each in changes:
        page.hanging("- ", each["change"])


def _history(page: Page, entries: Sequence[Data]) -> None:
    if not entries:
        return
    left_out = max(len(entries) - SHOWN_ENTRIES, 0)
    page.heading("History", f"{left_out} older" if left_out else "")
    columns = [
        Column("AGE", lambda entry: page.ago(entry["at"])),
        Column("CYCLE", lambda entry: str(entry["number"] or "")),
        Column("WHAT", lambda entry: " ".join(filter(None, (entry["what"], entry.get("code", ""))))),
        Column("TEXT", lambda entry: short(entry.get("text", "")), sentence=True),
    ]
    page.table(columns, list(entries)[-SHOWN_ENTRIES:])


def _pod(page: Page, found: Data) -> None:
    page.summary(short(found["summary"]))
    page.facts(
        {
            "Pod": found["pod"],
            "Job": found.get("job"),
            "Queue": found.get("queue"),
            "User": found.get("user"),
            "Status": found.get("status"),
            "Priority": found.get("priority") or None,
            "Requests": listed(found.get("requests") or {}),
        }
    )
    if found.get("ranking"):
        page.heading("Scores", f"nodes that could take it: {found['feasible']}; {found['basis']}")
        page.table(_score_columns(found["ranking"], found["node"]), found["ranking"])
    if found.get("nodes"):
        nodes = found["nodes"]
        page.heading("Nodes", f"{nodes['withRoom']} of {nodes['total']} have room now")
        rows = sorted(nodes["reasons"].items(), key=lambda each: -each[1])
        page.table(
            [Column("NODES", lambda row: str(row[1])), Column("REASON", lambda row: row[0], sentence=True)],
            rows,
        )
    _details(page, found)
    for each in found.get("evictions") or ():
        page.heading("Eviction", f"cycle {each['cycle']}, {page.ago(each['at'])}")
        page.facts(
            {
                "From": each["node"],
                "By": each["action"],
                "For": short(each.get("beneficiary", "")),
                "Why": short(each["why"]),
            }
        )
    _history(page, found.get("history", ()))


def _score_columns(rows: Sequence[Data], node: str) -> list[Column]:
    plugins = list(dict.fromkeys(name for row in rows for name in row["plugins"]))

    def points(name: str) -> Column:
        return Column(name, lambda row: f"{row['plugins'].get(name, 0):g}", spare=1)

    return [
        Column("", lambda row: ">" if row["node"] == node else " "),
        Column("PLACE", lambda row: str(row.get("place", ""))),
        Column("NODE", lambda row: row["node"]),
        Column("SCORE", lambda row: f"{row['score']:g}"),
        *map(points, plugins),
        *((Column("FREE", lambda row: listed(row["free"]), sentence=True),) if "free" in rows[0] else ()),
    ]


def _queue(page: Page, found: Data) -> None:
    page.summary(short(found["summary"]))
    page.facts(
        {
            "Queue": found["queue"],
            "Parent": found["parent"],
            "State": found["state"],
            "Plugin": found["plugin"] or "none: shares are not limited",
            "Jobs": f"{found['jobs']['holding']} hold resources, {found['jobs']['waiting']} wait",
        }
    )
    page.heading("Share", "the cluster, divided by weight, within limit and request, at least the guarantee")
    page.table(SHARE_COLUMNS, found["resources"])
    if found["reasons"]:
        page.heading("Reasons")
        page.table(REASON_COLUMNS, found["reasons"])
        page.heading("Waiting jobs", "in the order of the queue")
        page.table(JOB_COLUMNS, found["waiting"])


def _node(page: Page, found: Data) -> None:
    page.summary(short(found["summary"]))
    page.facts(
        {
            "Node": found["node"],
            "Taints": ", ".join(found["taints"]),
            "Allocatable": listed(found["allocatable"]),
            "Free": listed(found["free"]) or "nothing",
            "Being released": listed(found["releasing"]),
        }
    )
    if found["pods"]:
        page.heading("Pods")
        page.table(POD_COLUMNS, found["pods"])
    if found["refused"]:
        page.heading("Waiting jobs")
        page.table(REFUSED_COLUMNS, found["refused"][:SHOWN_JOBS])
        if len(found["refused"]) > SHOWN_JOBS:
            page.line(f"and {len(found['refused']) - SHOWN_JOBS} more")


def _cluster(page: Page, found: Data) -> None:
    page.summary(short(found["summary"]))
    if "nodes" in found:
        page.facts(
            {
                "Nodes": f"{found['nodes']['total']}, {found['nodes']['usable']} usable",
                "Allocatable": listed(found["allocatable"]),
                "Free": listed(found["free"]) or "nothing",
                "Jobs": f"{found['jobs']['total']}, {found['jobs']['waiting']} wait",
            }
        )
    if found["codes"]:
        page.heading("Waiting jobs by code")
        page.table(CODE_COLUMNS, found["codes"])
    if "bestChange" in found and found["codes"]:
        page.heading("The change that would start most of them")
        best = found["bestChange"]
        if best is None:
            page.line("neither one more node of a pool nor the end of one job starts any of them")
        else:
            page.line(f"{best['change']}: starts {best['starts']} of {best['of']}")
    for error in found.get("errors", ()):
        page.line(f"! {error}")


def _cycle(page: Page, found: Data) -> None:
    if "cycles" in found:
        page.summary(
            f"The record has the cycles {found['first']} to {found['last']}; those that changed something:"
        )
        columns = [
            Column("CYCLE", lambda row: str(row["number"])),
            Column("AGE", lambda row: page.ago(row["at"])),
            Column("TOOK", lambda row: f"{row['seconds'] * 1000:.0f}ms"),
            Column("PLACED", lambda row: str(row["placed"])),
            Column("EVICTED", lambda row: str(row["evicted"])),
            Column("ADMITTED", lambda row: str(row["admitted"])),
            Column("CHANGED", lambda row: str(row["changed"])),
            Column("WAITING", lambda row: str(row["waiting"])),
        ]
        page.table(columns, found["cycles"])
        return
    cycle = found["cycle"]
    waiting = len(found["diagnoses"])
    if cycle is None:
        page.summary(f"Cycle {found['asked']} decided nothing.")
        return
    pods = sum(len(each["pods"]) for each in cycle.get("placed", ()))
    text = f"Cycle {cycle['number']}: pods placed {pods}, evicted {len(cycle.get('evicted', ()))}"
    page.summary(f"{text}; jobs that waited at its end: {waiting}.")
    if cycle["number"] != found["asked"]:
        page.line(f"cycle {found['asked']} changed nothing; this is the last one before it that did")
    page.facts(
        {
            "At": f"{timestamp(cycle['at'])} ({page.ago(cycle['at'])})",
            "Took": f"{cycle.get('seconds', 0) * 1000:.0f}ms",
            "Admitted": short(", ".join(cycle.get("admitted", ()))),
            "Errors": "; ".join(cycle.get("errors", ())),
        }
    )
    if cycle.get("placed"):
        page.heading("Placed")
        page.table(PLACED_COLUMNS, cycle["placed"])
    if cycle.get("evicted"):
        page.heading("Evicted")
        page.table(EVICTED_COLUMNS, cycle["evicted"])
    if cycle.get("diagnoses"):
        page.heading("Diagnoses that changed")
        page.table(WAITING_COLUMNS, cycle["diagnoses"])


def _placed_nodes(row: Data) -> str:
    counts: dict[str, int] = {}
    for node in row["pods"].values():
        counts[node] = counts.get(node, 0) + 1
    return ", ".join(f"{node} ({count})" if count > 1 else node for node, count in counts.items())


JOB_COLUMNS = (
    Column("JOB", lambda row: row["job"]),
    Column("USER", lambda row: row.get("user", "")),
    Column("PODS", lambda row: str(row["pods"])),
    Column("PRIORITY", lambda row: str(row["priority"] or ""), spare=1),
    Column("CODE", lambda row: row.get("code", ""), spare=2),
    Column("REQUESTS", lambda row: listed(row["requests"]), sentence=True),
)


def _amount(field: str) -> Callable[[Data], str]:
    """Cell with an amount, which a division by weights may have left with many digits."""
    return lambda row: quantity_shown(row["resource"], row[field])


SHARE_COLUMNS = (
    Column("RESOURCE", lambda row: row["resource"]),
    Column("CLUSTER", _amount("cluster")),
    Column("WEIGHT", lambda row: row["weight"], spare=2),
    Column("BY WEIGHT", _amount("byWeight")),
    Column("LIMIT", _amount("limit")),
    Column("REQUESTED", _amount("requested")),
    Column("GUARANTEE", _amount("guarantee"), spare=3),
    Column("DESERVED", _amount("deserved")),
    Column("ALLOCATED", _amount("allocated")),
    Column("BORROWED", _amount("borrowed"), spare=1),
    Column("LENT", _amount("lent"), spare=1),
)
REASON_COLUMNS = (Column("JOBS", lambda row: str(row["jobs"])), Column("CODE", lambda row: row["code"]))
POD_COLUMNS = (
    Column("POD", lambda row: row["pod"]),
    Column("JOB", lambda row: row["job"], spare=2),
    Column("QUEUE", lambda row: row["queue"]),
    Column("USER", lambda row: row["user"]),
    Column("STATUS", lambda row: row["status"], coloured=True),
    Column("REQUESTS", lambda row: listed(row["requests"]), sentence=True),
)
REFUSED_COLUMNS = (
    Column("JOB", lambda row: row["job"]),
    Column("USER", lambda row: row["user"]),
    Column("REASON", lambda row: row["reason"], sentence=True),
)
CODE_COLUMNS = (
    Column("JOBS", lambda row: str(row["jobs"])),
    Column("CLASS", lambda row: row["class"]),
    Column("CODE", lambda row: row["code"]),
    Column("EXAMPLES", lambda row: short(", ".join(row["examples"])), spare=1),
    Column("MEANING", lambda row: row["meaning"], sentence=True),
)
PLACED_COLUMNS = (
    Column("JOB", lambda row: short(row["job"])),
    Column("PODS", lambda row: str(len(row["pods"]))),
    Column("NODES", _placed_nodes, sentence=True),
)
EVICTED_COLUMNS = (
    Column("POD", lambda row: row["pod"]),
    Column("NODE", lambda row: row["node"]),
    Column("ACTION", lambda row: row["action"]),
    Column("FOR", lambda row: short(row.get("beneficiary", ""))),
)
WAITING_COLUMNS = (
    Column("JOB", lambda row: short(row["job"])),
    Column("CODE", lambda row: row["code"]),
    Column("MESSAGE", lambda row: row["message"], sentence=True),
)
DETAILS: dict[str, tuple[Column, ...]] = {
    "nodes": (
        Column("NODE", lambda row: row["node"]),
        Column("REASON", lambda row: row["reason"]),
        Column("FREE", lambda row: listed(row.get("free", {})), sentence=True),
    ),
    "scores": (
        Column("NODE", lambda row: row["node"]),
        Column("SCORE", lambda row: f"{row['score']:g}"),
        Column(
            "PLUGINS", lambda row: ", ".join(f"{k} {v:g}" for k, v in row["plugins"].items()), sentence=True
        ),
    ),
    "victims": (
        Column("POD", lambda row: row["pod"]),
        Column("QUEUE", lambda row: row["queue"], spare=1),
        Column("PRIORITY", lambda row: str(row["priority"])),
        Column("NODE", lambda row: row["node"], spare=2),
        Column("WHY", lambda row: row["why"], sentence=True),
    ),
    "plugins": (
        Column("PLUGIN", lambda row: row["plugin"]),
        Column("TIER", lambda row: str(row["tier"])),
        Column("QUESTION", lambda row: row["question"]),
        Column("ANSWER", lambda row: row["answer"], sentence=True),
    ),
}
SCREENS: dict[str, Callable[[Page, Data], None]] = {
    "JobExplanation": _job,
    "PodExplanation": _pod,
    "QueueExplanation": _queue,
    "NodeExplanation": _node,
    "ClusterExplanation": _cluster,
    "CycleExplanation": _cycle,
}

"""Feature gates of Volcano: `--feature-gates=A=true,B=false`."""

import argparse
from collections.abc import Mapping
from difflib import get_close_matches

from volcano.component import process
from volcano.scheduler.engine.arguments import TRUTHS

WORKLOADS, JOBS, CRON_JOBS = "WorkLoadSupport", "VolcanoJobSupport", "CronVolcanoJobSupport"
BUDGETS, COMMANDS = "PodDisruptionBudgetsSupport", "QueueCommandSync"
PRIORITIES, TOPOLOGIES = "PriorityClass", "ResourceTopology"
QUEUE_ADMISSION = "SchedulingGatesQueueAdmission"
# Gates and whether they are on by default.
DEFAULTS: Mapping[str, bool] = {
    WORKLOADS: True,
    JOBS: True,
    CRON_JOBS: True,
    BUDGETS: True,
    COMMANDS: True,
    PRIORITIES: True,
    TOPOLOGIES: True,
    "CSIStorage": False,
    QUEUE_ADMISSION: False,
}
# As in Kubernetes: these set all gates of a stage. All of Volcano's are alpha.
STAGES = ("AllAlpha", "AllBeta")


def add_gates_flag(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument(
        "--feature-gates",
        dest="gates",
        type=process.typed(parse_gates),
        default="",
        metavar="GATE=BOOL",
        help=help,
    )


def parse_gates(text: str) -> frozenset[str]:
    """Returns the gates that are on. Raises ValueError for unknown names and malformed values."""
    given: dict[str, bool] = {}
    for part in (each.strip() for each in text.split(",")):
        if not part:
            continue
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if name not in DEFAULTS and name not in STAGES:
            near = get_close_matches(name, DEFAULTS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(DEFAULTS)}"
            raise ValueError(f"{name!r} is unknown; {hint}")
        if not separator or value.lower() not in TRUTHS:
            raise ValueError(f"{part!r} is not a setting; write {name}=true or {name}=false")
        given[name] = TRUTHS[value.lower()]
    every = given.get("AllAlpha")
    chosen = {name: value if every is None else every for name, value in DEFAULTS.items()}
    return frozenset(name for name, value in {**chosen, **given}.items() if value and name in DEFAULTS)

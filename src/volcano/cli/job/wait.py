"""`vcctl job wait`: waits until a job reaches a phase, and fails when it no longer can."""

import argparse
import math

from volcano.base.progress_line import ProgressLine
from volcano.cli import flags
from volcano.cli.errors import UsageError, near
from volcano.cli.objects import target
from volcano.cli.session import Session
from volcano.kube.api import duration
from volcano.kube.api.manifest import Key
from volcano.services.job_watch import DELETED, PHASES, wait_for

WORDS = (*PHASES, DELETED)
# kubectl's spelling.
SYNONYMS = {"delete": DELETED, "complete": "Completed", "succeeded": "Completed"}


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    parser.add_argument(
        "--for", dest="goal", default="Completed", metavar="PHASE",
        help=f"phase to wait for, or several separated by commas: {', '.join(WORDS)} (default: Completed)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", default="", metavar="TIME", help="how long to wait, such as 30s or 5m (no limit)"
    )
    parser.description = (
        "Wait until a job reaches a phase. Exits with 0 when it is reached,\n"
        "with 1 on timeout or if the job ended otherwise."
    )


async def run(arguments: argparse.Namespace, session: Session) -> int:
    goals = parse_goals(arguments.goal)
    limit = parse_timeout(arguments.timeout)
    key = target(arguments, session, "job name is mandatory to wait for a particular job")
    await wait(session, key, goals, limit)
    return 0


async def wait(
    session: Session, key: Key, goals: tuple[str, ...] = ("Completed",), limit: float = math.inf
) -> None:
    """Waits with a progress line on stderr, and prints how the goal was reached."""
    async with ProgressLine(session.stderr, session.clock) as line:
        reached = await wait_for(
            session.client, session.clock, key, goals=goals, limit=limit, on_progress=line.say
        )
    session.write(f"job {key} {reached}")


def parse_goals(text: str) -> tuple[str, ...]:
    """Parses the requested phases in any supported spelling."""
    known = {word.lower(): word for word in WORDS} | SYNONYMS
    goals = []
    for part in text.split(","):
        word = part.strip().removeprefix("phase=").lower()
        if word not in known:
            raise UsageError(
                f"--for: {part.strip()!r} is none of {', '.join(WORDS)}{near(part.title(), WORDS)}"
            )
        goals.append(known[word])
    return tuple(goals)


def parse_timeout(text: str) -> float:
    """Parses seconds; infinite for an empty text or 0."""
    try:
        seconds = duration.parse(text) if not text.isdigit() else float(text)
    except ValueError as error:
        if not text:
            return math.inf
        raise UsageError(f"--timeout: {error}; such as 30s, 5m or 1h") from None
    if seconds < 0:
        raise UsageError(f"--timeout: {text!r} is negative; such as 30s, 5m or 1h")
    return seconds or math.inf

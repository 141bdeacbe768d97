"""`vcctl job wait`: waits until a job reaches a phase, and fails when it no longer can."""

import argparse
import asyncio
import math
from contextlib import aclosing
from typing import Any

from volcano.apiserver.endpoints.tables.cells import items
from volcano.cli import flags
from volcano.cli.errors import CommandError, Missing, UsageError, near
from volcano.cli.job.following import (
    ENDS,
    PHASES,
    Progress,
    ended,
    message_of,
    phase_of,
    pod_counts,
    states,
    ticking,
    why,
)
from volcano.cli.objects import target
from volcano.cli.session import Session
from volcano.kube.api import duration
from volcano.kube.api.manifest import Key, Manifest

DELETED = "Deleted"
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
    reached = await wait_for(session, key, goals, limit)
    session.write(f"job {key} {reached}")
    return 0


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


async def wait_for(session: Session, key: Key, goals: tuple[str, ...], limit: float = math.inf) -> str:
    """Waits; returns how the goal was reached. Raises CommandError if it cannot be reached, Missing without a
    job."""
    progress = Progress(session)
    clock = asyncio.create_task(ticking(progress, session))
    last: dict[str, Any] = {}
    try:
        async with asyncio.timeout(None if math.isinf(limit) else limit):
            return await _watched(session, key, goals, progress, last)
    except TimeoutError:
        stand = f"it is {phase_of(last)}, {pod_counts(last)}" if last else "nothing is known of it"
        reason = await why(session, last) if last else ""
        raise CommandError(
            f"job {key} is not {' or '.join(goals)} after {duration.format(limit)}: {stand}"
            + (f"; {reason}" if reason else "")
        ) from None
    except Missing:
        if DELETED in goals:
            return "is deleted"
        raise
    finally:
        await ended(clock)
        progress.clear()


async def _watched(
    session: Session, key: Key, goals: tuple[str, ...], progress: Progress, last: Manifest
) -> str:
    async with aclosing(states(session, key)) as seen:
        async for job in seen:
            if job is None:
                if DELETED in goals:
                    return "is deleted"
                raise CommandError(f"job {key} was deleted before it was {' or '.join(goals)}")
            last.clear()
            last.update(job)
            if reached := goal_reached(job, goals):
                return reached
            if failure := goal_unreachable(job, goals):
                raise CommandError(f"job {key} {failure}")
            reason = await why(session, job)
            progress.say(f"job {key}: {phase_of(job)}, {pod_counts(job)}" + (f"; {reason}" if reason else ""))
    raise CommandError(f"job {key} is no longer watched")


def goal_reached(job: Manifest, goals: tuple[str, ...]) -> str:
    """How the job reached a goal, or empty. A finished job has also reached the phases it passed through."""
    phase = phase_of(job)
    if phase in goals:
        return f"is {phase}"
    passed = {str(condition.get("status")) for condition in items(job, "status", "conditions")}
    if phase in ENDS and (
        before := next((goal for goal in goals if goal in passed and goal not in ENDS), "")
    ):
        return f"was {before} and is {phase}"
    return ""


def goal_unreachable(job: Manifest, goals: tuple[str, ...]) -> str:
    """Why the job cannot reach any goal any more; empty while it can."""
    phase = phase_of(job)
    if phase not in ENDS or DELETED in goals:
        return ""
    said = message_of(job)
    hint = "; `vcctl job resume` would start it again" if phase == "Aborted" else ""
    return f"ended {phase}, not {' or '.join(goals)}" + (f": {said}" if said else "") + hint

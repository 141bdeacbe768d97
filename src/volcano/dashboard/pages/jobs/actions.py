"""Suspend, resume and delete of one or many jobs, with the viewer's permissions."""

import asyncio
from collections.abc import Sequence

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import COMMAND, JOB
from volcano.kube.api.manifest import Key
from volcano.services.errors import Rejected, ServiceError
from volcano.services.jobs import ACTIONS, DELETE, RESUME, SUSPEND

ORDER = (SUSPEND, RESUME, DELETE)
ICONS = {SUSPEND: "pause", RESUME: "play_arrow", DELETE: "delete"}
DONE = {SUSPEND: "Suspended", RESUME: "Resumed", DELETE: "Deleted"}
# What the API server has to permit.
NEEDED = {SUSPEND: ("create", COMMAND), RESUME: ("create", COMMAND), DELETE: ("delete", JOB)}
PARALLEL = 8
SHOWN_ERRORS = 3
# After "Suspend 3 jobs?", for one job and for several.
EFFECTS = {
    SUSPEND: ("Its pods are deleted; it can be resumed.", "Their pods are deleted; they can be resumed."),
    RESUME: ("It waits for resources again.", "They wait for resources again."),
    DELETE: (
        "Its pods are deleted too. This cannot be undone.",
        "Their pods are deleted too. This cannot be undone.",
    ),
}


async def permitted(context: Context, action: str, keys: Sequence[Key]) -> list[Key]:
    """Those of the keys for which the viewer may do this."""
    verb, kind = NEEDED[action]
    namespaces = sorted({key.namespace for key in keys})
    allowed = {each: await context.viewer.rights.may(verb, kind, each) for each in namespaces}
    return [key for key in keys if allowed[key.namespace]]


async def run(context: Context, action: str, keys: Sequence[Key]) -> bool:
    """Asks, then acts on all; returns whether it was done for all of them."""
    count = f"{len(keys)} {'job' if len(keys) == 1 else 'jobs'}"
    what = str(keys[0]) if len(keys) == 1 else count
    question = f"{action.capitalize()} {what}? {EFFECTS[action][len(keys) > 1]}"
    if not await context.confirm(question, f"{action.capitalize()} {count}"):
        return False
    return await context.act(f"{DONE[action]} {what}", _act(context, action, keys))


async def _act(context: Context, action: str, keys: Sequence[Key]) -> None:
    """Acts on each key, a few at a time; the error tells how many failed and why."""
    limit = asyncio.Semaphore(PARALLEL)
    errors: list[str] = []
    connection = context.viewer.connection

    async def one(key: Key) -> None:
        async with limit:
            try:
                await ACTIONS[action](connection.client, connection.clock, key)
            except (ApiError, ServiceError) as error:
                errors.append(error.message)

    await asyncio.gather(*(one(key) for key in keys))
    if not errors:
        return
    if len(keys) == 1:
        raise Rejected(errors[0])
    more = f" and {len(errors) - SHOWN_ERRORS} more" if len(errors) > SHOWN_ERRORS else ""
    raise Rejected(
        f"{action} failed for {len(errors)} of {len(keys)} jobs: {'; '.join(errors[:SHOWN_ERRORS])}{more}"
    )


def button(context: Context, action: str, key: Key) -> ui.button:
    """A button for an action on one job."""

    async def act() -> None:
        await run(context, action, [key])

    created = ui.button(action.capitalize(), icon=ICONS[action], on_click=act)
    created.props("outline dense" + (" color=negative" if action == DELETE else ""))
    return created

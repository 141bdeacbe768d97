"""Actions, plugins, arguments and switches of the scheduler's configuration file."""

import inspect
import sys

from tools.docs.markdown import code, codes, page, table
from volcano.scheduler.engine.arguments import Argument
from volcano.scheduler.engine.load_settings import KEYS as LOAD_KEYS
from volcano.scheduler.engine.plugin_loader import (
    NOT_PROVIDED,
    PLUGINS,
    built_in_actions,
    built_in_plugins,
    load_action,
    load_plugin,
)
from volcano.scheduler.engine.switches import HOOKS_OF_SWITCH, MODES, WITHOUT_EFFECT

INTRODUCTION = """\
The file `volcano-scheduler.conf` names the actions of a cycle in their order, and the plugins in tiers. `volcano config
validate FILE` checks one. [Scheduler plugins](../plugins/README.md) has the defaults and explains the larger plugins.
"""


def configuration_page() -> str:
    return page(
        "Scheduler configuration",
        INTRODUCTION,
        "## Actions\n\n" + table(["action", "purpose", "arguments"], map(action_row, built_in_actions())),
        "## Plugins\n\n" + table(["plugin", "purpose", "arguments"], map(plugin_row, built_in_plugins())),
        "Known from Volcano and not provided: " + codes(sorted(NOT_PROVIDED[PLUGINS])) + ".",
        "## Switches\n\nEach is a field of a plugin and turns some of its hooks off when it is false.\n\n"
        + table(
            ["switch", "hooks"], ((code(name), ", ".join(hooks)) for name, hooks in HOOKS_OF_SWITCH.items())
        ),
        f"Off unless set: {codes(MODES)}. Accepted without effect: {codes(WITHOUT_EFFECT)}.",
        "## Load of nodes\n\nThe section `metrics` names the source of the measured load, which the plugins "
        "`usage` and `rescheduling` use; see [Load-aware scheduling](../how-to/load-aware.md).\n\n"
        + table(["key", "value"], ((code(key.name), key.expected or key.type.value) for key in LOAD_KEYS)),
    )


def action_row(name: str) -> tuple[str, str, str]:
    action = load_action(name)
    module = sys.modules[action.run.__module__]
    return code(name), purpose(module.__doc__), arguments(action.arguments or ())


def plugin_row(name: str) -> tuple[str, str, str]:
    plugin = load_plugin(name)
    module = sys.modules[plugin.__module__]
    return code(name), purpose(module.__doc__), arguments(plugin.arguments)


def purpose(docstring: str | None) -> str:
    """First paragraph of a module's docstring, without the name in front of it."""
    text = inspect.cleandoc(docstring or "").split("\n\n")[0]
    name, colon, rest = text.partition(": ")
    return rest if colon and " " not in name else text


def arguments(declared: tuple[Argument, ...]) -> str:
    return "; ".join(
        f"{code(argument.name)} ({argument.expected or argument.type.value})" for argument in declared
    )

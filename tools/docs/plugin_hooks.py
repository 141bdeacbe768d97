"""Table of the hooks of plugins in docs/plugins.md: when each is called, its reducer, and the plugins that override it.

`python -m tools.docs.plugin_hooks` writes it into the page.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.docs.markdown import code, codes, table
from volcano.scheduler.engine import hooks
from volcano.scheduler.engine.plugin import REDUCERS, SESSION_HOOKS, Plugin, implements
from volcano.scheduler.engine.plugin_loader import built_in_plugins, load_plugin

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
BEGIN, END = "<!-- hooks: generated -->", "<!-- hooks: end -->"
GROUPS = {"Session": SESSION_HOOKS} | {
    protocol.__name__: [name for name in vars(protocol) if name in REDUCERS] for protocol in hooks.PROTOCOLS
}


def hooks_table() -> str:
    """The hooks by protocol."""
    plugins = {name: load_plugin(name) for name in built_in_plugins()}
    rows = [
        (
            protocol,
            code(hook),
            _first_paragraph(getattr(Plugin, hook)),
            _first_paragraph(REDUCERS[hook]),
            codes(name for name, plugin in plugins.items() if implements(plugin, hook)),
        )
        for protocol, names in GROUPS.items()
        for hook in names
    ]
    return table(
        ["protocol", "hook", "what it does and when it is called", "results of several plugins", "plugins"],
        rows,
    )


def _first_paragraph(documented: Callable[..., Any]) -> str:
    return (inspect.getdoc(documented) or "").split("\n\n")[0]


def with_table(page: str) -> str:
    """The page with the current table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{hooks_table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))

"""Taking away what a cluster has of an engine, found by its labels alone."""

import subprocess
from collections.abc import Sequence

from volcano.nodes.runtimes.engine import commands as commands
from volcano.nodes.runtimes.engine.pause_image import IMAGE

_PATIENCE = 120.0
_AT_ONCE = 50


def remove_everything(program: str, flavour: commands.Flavour, cluster: str, *only: str) -> list[str]:
    """Ends and removes the containers, then the network of a cluster; `only` with further labels. Says what it did."""
    belonging = commands.Belonging(cluster)
    removed: list[str] = []
    # What joins a sandbox's namespaces has to go before it.
    parts = (commands.CONTAINER_PART, commands.TRIAL_PART, commands.SANDBOX_PART)
    for part in parts:
        filters = belonging.filters(f"{commands.PART}={part}", *only)
        found = _listed(program, "ps", "--all", "--quiet", "--no-trunc", *filters)
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            _run(program, "rm", "--force", "--volumes", *flavour.removes, *some)
        removed += [f"{part} {identifier[:12]}" for identifier in found]
    for network in _listed(program, "network", "ls", "--quiet", *belonging.filters()):
        if _run(program, "network", "rm", network) is not None:
            removed.append(f"network {network}")
    # Another cluster may still use it; then the engine refuses, and rightly.
    _run(program, "image", "rm", IMAGE)
    return removed


def _listed(program: str, *arguments: str) -> list[str]:
    return (_run(program, *arguments) or "").split()


def _run(program: str, *arguments: str) -> str | None:
    """What it said; None when it failed."""
    command: Sequence[str] = (program, *arguments)
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode(errors="replace") if ended.returncode == 0 else None

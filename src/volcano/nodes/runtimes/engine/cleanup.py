"""Taking away what a cluster has of an engine, found by its labels alone."""

import subprocess
from collections.abc import Sequence

from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine.pause_image import IMAGE

_CALL_TIMEOUT = 120.0
_BATCH_SIZE = 50


def remove_cluster(program: str, profile: commands.EngineProfile, cluster: str, *only: str) -> list[str]:
    """Ends and removes the containers, then the network of a cluster; `only` with further labels. Says what it did."""
    reference = commands.ClusterRef(cluster)
    removed: list[str] = []
    # What joins a sandbox's namespaces has to go before it.
    parts = (commands.CONTAINER_PART, commands.PROBE_PART, commands.SANDBOX_PART)
    for part in parts:
        filters = reference.filters(f"{commands.PART}={part}", *only)
        found = _listed(program, "ps", "--all", "--quiet", "--no-trunc", *filters)
        for start in range(0, len(found), _BATCH_SIZE):
            some = found[start : start + _BATCH_SIZE]
            _run(program, "rm", "--force", "--volumes", *profile.remove_options, *some)
        removed += [f"{part} {identifier[:12]}" for identifier in found]
    for network in _listed(program, "network", "ls", "--quiet", *reference.filters()):
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
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALL_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode(errors="replace") if ended.returncode == 0 else None

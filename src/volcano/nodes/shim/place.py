"""Where a keeper keeps its things: `keeper/` in the cluster's data directory."""

import os

SOCKET = "keeper.sock"
LOG = "keeper.log"
WHOAMI = "keeper.json"  # pid, start time, mode and version
LOCK = "keeper.lock"


def of(directory: str) -> str:
    """The keeper's own directory in a cluster's data directory."""
    return os.path.join(directory, "keeper")

"""Where a shim keeps its things: `shim/` in the cluster's data directory."""

import os

SOCKET = "shim.sock"
LOG = "shim.log"
WHOAMI = "shim.json"  # pid, start time, mode and version
LOCK = "shim.lock"


def of(directory: str) -> str:
    """The shim's own directory in a cluster's data directory."""
    return os.path.join(directory, "shim")

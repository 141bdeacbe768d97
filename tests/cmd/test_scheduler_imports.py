"""Modules that the scheduler does not load, because each takes memory."""

import subprocess
import sys


def test_the_scheduler_does_not_load_the_certificate_library_or_the_api_server() -> None:
    code = "import sys, volcano.cmd.scheduler; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    unwanted = (
        "cryptography",
        "volcano.apiserver",
        "volcano.controllers",
        "volcano.nodes",
        "volcano.dashboard",
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []

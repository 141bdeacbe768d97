"""Makes the picture of the README: real commands on a real cluster, as SVG. `python -m tools.docs.screenshot`."""

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).parents[2] / "docs" / "images" / "terminal.svg"
COLUMNS = 96
# Commands, the pause after each in seconds, and whether they are shown.
SCRIPT = (
    (
        "volcano up --nodes 4 --node cpu=32,memory=128Gi,nvidia.com/gpu=8 --no-local-node --in-memory --detach",
        0,
        False,
    ),
    ("vcctl queue create research --weight 3", 0, False),
    ("vcctl queue create teaching", 0, False),
    ("vcctl submit --name llm --queue research --workers 3 --gpus 8 --cpus 16 -- sleep 600", 0, True),
    ("vcctl submit --name notebook --queue teaching --workers 2 --gpus 2 -- sleep 600", 0, True),
    ("vcctl submit --name ablation --queue research --workers 2 --gpus 8 -- sleep 600", 4, True),
    ("vcctl job list", 0, True),
    ("vcctl queue tree", 0, True),
)
FONT = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)


def main() -> None:
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "HOME": home,
            "XDG_DATA_HOME": home,
            "XDG_RUNTIME_DIR": home,
            "TERM": "xterm-256color",
        }
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        environment.pop("KUBECONFIG", None)
        try:
            for line, pause, shown in SCRIPT:
                output = in_terminal(line, environment)
                time.sleep(pause)
                if shown:
                    console.print(Text.from_ansi(f"\x1b[1m$\x1b[0m {line}"), soft_wrap=True)
                    console.print(Text.from_ansi(output.rstrip()), soft_wrap=True)
        finally:
            in_terminal("volcano down", environment)
    # The reader's own font: the picture loads nothing from other hosts.
    TARGET.write_text(FONT.sub("", console.export_svg(title="volcano", unique_id="terminal")))
    print(f"wrote {TARGET}")


def in_terminal(line: str, environment: dict[str, str]) -> str:
    """What a command prints on a terminal of our width."""
    master, slave = pty.openpty()
    sized = f"stty cols {COLUMNS} rows 50; exec {line}"
    process = subprocess.Popen(
        ["sh", "-c", sized], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    parts = []
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # the other end was closed
            break
        if not data:
            break
        parts.append(data)
    os.close(master)
    if process.wait() != 0:
        raise SystemExit(f"{shlex.quote(line)} failed: {b''.join(parts).decode()}")
    return b"".join(parts).decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()

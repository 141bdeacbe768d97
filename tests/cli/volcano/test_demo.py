"""`volcano demo`: node counts that match the scheduler's messages, and what to try next."""

import shlex

import pytest

from volcano.cli.volcano import demo
from volcano.cli.volcano.parser import COMMANDS, build_parser
from volcano.embedded.cluster import LocalCluster


def test_the_introduction_counts_every_node_that_messages_count(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = demo.settings(tmp_path_factory.mktemp("demo"))
    simulated = len(LocalCluster(options).nodes())  # the control plane's included
    assert demo.INTRODUCTION.startswith(f"{simulated + options.local.nodes} nodes: ")


def test_the_next_steps_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lines = demo.next_steps().splitlines()[2:]
    programs = [line.split()[0] for line in lines]
    assert all(program.endswith(("/volcano", "/vcctl")) for program in programs)
    for line in lines:
        command = shlex.split(line.split("   ")[0].strip().split("  ")[0])
        if command[0].endswith("/volcano"):
            assert build_parser().parse_args(command[1:]).command in COMMANDS

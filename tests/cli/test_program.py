"""What holds for every command: where the cluster is found, what errors look like, how a program ends."""

import importlib
import inspect
import os
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Embedded, Result, Vcctl
from volcano.cli.commands import SLURM, VCCTL, Command
from volcano.cli.program import main, parser_of
from volcano.embedded import state

SAID_BY_THE_REFERENCE = """
job run|job list|job view|job suspend|job resume|job delete|queue create|queue delete|queue operate|queue list|
queue get|jobtemplate create|jobtemplate list|jobtemplate get|jobtemplate delete|jobtemplate describe|jobflow create|
jobflow list|jobflow get|jobflow delete|jobflow describe|pod list|version
"""

# What a command cannot do without.
REQUIRED = {"submit": ["--", "true"], "completion": ["bash"]}


def test_every_command_of_the_reference_is_there() -> None:
    words = {words.strip() for words in SAID_BY_THE_REFERENCE.replace("\n", "").split("|")}
    assert len(words) == 23
    assert words <= {command.words for command in VCCTL}


@pytest.mark.parametrize(
    "command", [*VCCTL, *SLURM.values()], ids=lambda command: f"{command.words}{command.function}"
)
def test_every_row_of_the_table_leads_to_a_command(command: Command) -> None:
    module = importlib.import_module(f"volcano.cli.{command.module}")
    assert inspect.iscoroutinefunction(getattr(module, command.function))
    assert list(inspect.signature(getattr(module, f"{command.function}_arguments")).parameters) == ["parser"]


@pytest.mark.parametrize("command", VCCTL, ids=lambda command: command.words)
def test_every_command_has_help_and_the_common_flags(command: Command, run_command: Vcctl) -> None:
    result = run_command(*command.words.split(), "--help")
    assert (result.code, result.err) == (0, "")
    assert f"vcctl {command.words}" in result.out
    common = "-s a -k b --master c --kubeconfig d --context e -v 3 --vmodule f=1 --log-flush-frequency 5s"
    parsed = parser_of("vcctl").parse_args(
        [*command.words.split(), *common.split(), *REQUIRED.get(command.words, [])]
    )
    assert (parsed.master, parsed.kubeconfig, parsed.context) == ("c", "d", "e")


def test_common_flags_may_stand_before_the_command() -> None:
    parsed = parser_of("vcctl").parse_args(["--context", "a", "job", "--kubeconfig", "b", "list", "-v", "2"])
    assert (parsed.context, parsed.kubeconfig) == ("a", "b")


@pytest.mark.parametrize("words", [[], ["job"], ["queue"]])
def test_without_a_command_there_is_help(run_command: Vcctl, words: list[str]) -> None:
    result = run_command(*words)
    assert result.code == 0
    assert result.out.startswith(" ".join(["usage: vcctl", *words]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("jbo list", "unknown command 'jbo'; did you mean 'job'?", id="noun"),
        pytest.param("job lst", "unknown command 'lst'; did you mean 'list'?", id="verb"),
        pytest.param("job list --quue a", "unknown flag --quue; did you mean '--queue'?", id="flag"),
        pytest.param("job list a", "unexpected argument 'a'", id="argument"),
        pytest.param("job list -o xml", "-o: 'xml' is none of wide, json, yaml, name", id="format"),
        pytest.param("job list -q", "argument -q/--queue: expected one argument", id="value"),
        pytest.param("job run -N x -r many", "invalid int value: 'many'", id="number"),
        pytest.param("queue update q --reclaimable no", "'no' is none of true, false", id="choice"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(run_command: Vcctl, words: str, message: str) -> None:
    result = run_command(*words.split())
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "--help`." in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["view", "a", "-N", "b"], "two names are given, 'a' and 'b'", id="two-names"),
        pytest.param(["list", "-o", "jsonpath={.items"], "braces must be closed", id="jsonpath"),
        pytest.param(
            ["run", "-N", "x", "-R", "cpu"], "--requests: invalid argument syntax 'cpu'", id="requests"
        ),
    ],
)
def test_values_that_make_no_sense_end_with_2(vcctl: Vcctl, words: list[str], message: str) -> None:
    result = vcctl("job", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_no_cluster_at_all_ends_with_4(run_command: Vcctl, tmp_path: Path) -> None:
    result = run_command("job", "list")
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith("Failed to list job: no cluster is configured: looked for ")
    assert "`volcano up`" in result.err


def test_no_answer_ends_with_4(run_command: Vcctl) -> None:
    result = run_command("job", "list", "--master", "http://127.0.0.1:1")
    assert (result.code, result.out) == (4, "")
    assert "127.0.0.1:1" in result.err


def test_no_rights_ends_with_4(vcctl: Vcctl) -> None:
    result = vcctl("job", "list", "--as", "eve")
    assert (result.code, result.out) == (4, "")
    assert 'User "eve" cannot list resource "jobs"' in result.err


def test_a_wrong_token_ends_with_4(vcctl: Vcctl) -> None:
    result = vcctl("queue", "list", "--token", "wrong")
    assert (result.code, result.out) == (4, "")
    assert "Unauthorized" in result.err


def test_a_server_we_do_not_trust_ends_with_4(run_command: Vcctl, embedded: Embedded) -> None:
    result = run_command("job", "list", "--master", embedded.cluster.url)
    assert (result.code, result.out) == (4, "")
    assert "certificate" in result.err


def test_a_kubeconfig_that_is_none_ends_with_4(run_command: Vcctl, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a: [")
    result = run_command("job", "list", "--kubeconfig", str(tmp_path / "bad"))
    assert (result.code, result.out) == (4, "")
    assert "not valid YAML" in result.err


def test_a_context_that_is_not_there_is_named(vcctl: Vcctl) -> None:
    result = vcctl("job", "list", "--context", "prod")
    assert (result.code, result.out) == (4, "")
    assert "there is no context 'prod'; there is: volcano" in result.err


def test_a_context_chooses_cluster_user_and_namespace(
    run_command: Vcctl, kubeconfig: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    context = config["contexts"][0]["context"]
    config["contexts"].append({"name": "other", "context": {**context, "namespace": "elsewhere"}})
    kubeconfig.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig.parent / 'none'}{os.pathsep}{kubeconfig}")
    assert f"in namespace {namespace!r}" in run_command("job", "view", "x").err
    assert "in namespace 'elsewhere'" in run_command("--context", "other", "job", "view", "x").err


def test_a_kubeconfig_may_be_named(run_command: Vcctl, kubeconfig: Path) -> None:
    assert run_command("job", "list", "-k", str(kubeconfig)).out == "No resources found\n"
    wrong = run_command("job", "list", "--kubeconfig", str(kubeconfig) + ".gone")
    assert (wrong.code, wrong.out) == (4, "")
    assert "kubeconfig.gone: No such file" in wrong.err


def test_an_exec_plugin_gives_the_credentials(
    run_command: Vcctl, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    plugin = tmp_path / "plugin"
    api = "client.authentication.k8s.io/v1"
    token = config["users"][0]["user"].pop("token")
    answer = f'{{"apiVersion":"{api}","kind":"ExecCredential","status":{{"token":"{token}"}}}}'
    plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
    plugin.chmod(0o755)
    command = {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}
    config["users"][0]["user"]["exec"] = command
    kubeconfig.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert run_command("job", "list").out == "No resources found\n"


def test_a_running_cluster_is_found_without_a_kubeconfig(
    run_command: Vcctl, embedded: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "is_alive", lambda pid: pid == os.getpid())
    directory = state.memory_directory()
    directory.mkdir(parents=True)
    kubeconfig = str(embedded.cluster.kubeconfig)
    running = state.Running(
        os.getpid(), embedded.cluster.url, kubeconfig, str(directory), False, 4, 0, "", "", "0"
    )
    state.announce(running)
    result = run_command("queue", "get", "default")
    assert (result.code, result.lines[1].split()[0]) == (0, "default")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "mistyped"))  # then no other cluster is meant
    elsewhere = run_command("queue", "get", "default")
    assert (elsewhere.code, elsewhere.out) == (4, "")
    assert "mistyped" in elsewhere.err


def test_an_unexpected_failure_is_one_line(vcctl: Vcctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Result:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("volcano.cli.version.platform.machine", broken)
    result = vcctl("version")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err == "Failed to version: unexpected RuntimeError: out of luck; please report this\n"


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("volcano.cli.version.platform.machine", interrupted)
    assert main(["version"]) == 130


def test_it_is_a_plugin_of_kubectl(vcctl: Vcctl) -> None:
    assert vcctl("queue", "get", "default", "-o", "name", program="kubectl volcano").out.startswith("queue.")
    assert "usage: kubectl volcano job list" in vcctl("job", "list", "-h", program="kubectl volcano").out

"""The options of `volcano` about the nodes of this host, and what it says when they make no sense."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cmd.test_volcano import Shown, say, write_job
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.volcano import settings
from volcano.cli.volcano.parser import build_parser
from volcano.embedded.options import ClusterOptions, LocalNodeOptions

__all__ = ["say"]


def settings_of(*arguments: str) -> ClusterOptions:
    parsed: argparse.Namespace = build_parser().parse_args(arguments)
    return settings.cluster_options(parsed, default_duration=1.0)


def on_loopback(nodes: int, runtime: str, gpus: int, shared: int = 0) -> LocalNodeOptions:
    """Options of a cluster that listens on a loopback address: pods reach other networks."""
    return LocalNodeOptions(nodes, runtime, gpus, shared, pod_network="nat")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param((), on_loopback(1, "auto", 0), id="one node unless told otherwise"),
        pytest.param(("--local-nodes", "3"), on_loopback(3, "auto", 0), id="several"),
        pytest.param(("--no-local-node",), on_loopback(0, "auto", 0), id="none"),
        pytest.param(("--pod-network", "none"), LocalNodeOptions(1), id="without other networks"),
        pytest.param(("--host", "0.0.0.0"), LocalNodeOptions(1), id="not on a loopback address"),
        pytest.param(
            ("--host", "0.0.0.0", "--pod-network", "nat"), on_loopback(1, "auto", 0), id="with other networks"
        ),
        pytest.param(
            ("--runtime", "plain", "--fake-gpus", "8"),
            on_loopback(1, "plain", 8),
            id="how, and with GPUs",
        ),
        pytest.param(
            ("--fake-gpus", "1", "--share-gpus", "4"),
            on_loopback(1, "auto", 1, 4),
            id="with GPUs that are shared",
        ),
    ],
)
def test_the_nodes_of_this_host_are_as_asked_for(
    arguments: tuple[str, ...], expected: LocalNodeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VOLCANO_POD_NETWORK")
    assert settings_of("up", *arguments).local == expected


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        pytest.param(("up",), "baseline", id="pods share this host"),
        pytest.param(("up", "--no-local-node"), "privileged", id="only simulated nodes"),
        pytest.param(("run", "x.yaml"), "privileged", id="a cluster of one user"),
        pytest.param(("up", "--pod-security", "restricted"), "restricted", id="chosen"),
        pytest.param(("up", "--pod-security", "privileged"), "privileged", id="none"),
    ],
)
def test_the_level_of_pod_security_depends_on_who_shares_the_host(
    arguments: tuple[str, ...], level: str
) -> None:
    configuration = settings_of(*arguments).pod_security
    assert configuration.defaults.enforce.level == configuration.defaults.warn.level == level
    assert configuration.namespaces == {"kube-system", "volcano-system"}


def test_pod_security_may_be_configured_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "security.yaml"
    file.write_text(
        "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
        "defaults: {enforce: baseline, audit: restricted}\nexemptions: {namespaces: [infra]}\n"
    )
    configuration = settings_of("up", "--pod-security", str(file)).pod_security
    assert [str(mode) for mode in configuration.defaults] == [
        "baseline:latest",
        "restricted:latest",
        "privileged:latest",
    ]
    assert configuration.namespaces == {"infra"}
    for content, message in (
        ("x: 1", "security.yaml: must be a PodSecurityConfiguration"),
        (None, "neither a level"),
    ):
        if content is None:
            file.unlink()
        else:
            file.write_text(content)
        with pytest.raises(CommandError, match=message):
            settings_of("up", "--pod-security", str(file))


def test_the_environment_chooses_the_pod_network_unless_the_option_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VOLCANO_POD_NETWORK", "none")
    assert settings_of("up").local.pod_network == "none"
    assert settings_of("up", "--pod-network", "nat").local.pod_network == "nat"
    monkeypatch.setenv("VOLCANO_POD_NETWORK", "bridge")
    with pytest.raises(CommandError, match="VOLCANO_POD_NETWORK: 'bridge' is unknown; choose from nat"):
        settings_of("up")


def test_a_run_without_real_nodes_has_simulated_ones() -> None:
    assert sum(pool.count for pool in settings_of("run", "--no-local-node", "x.yaml").pools) == 4
    assert settings_of("run", "x.yaml").pools == []
    assert settings_of("up", "--no-local-node").pools == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ("up", "--local-nodes", "0"),
            "--local-nodes: must be 1 or more (got 0); use --no-local-node",
            id="no nodes",
        ),
        pytest.param(
            ("up", "--local-nodes", "-2"), "--local-nodes: must be 0 or more (got -2)", id="less than none"
        ),
        pytest.param(
            ("up", "--local-nodes", "two"), "--local-nodes: 'two' is not a whole number", id="no number"
        ),
        pytest.param(
            ("up", "--local-nodes", "2", "--no-local-node"), "not allowed with argument", id="some and none"
        ),
        pytest.param(
            ("up", "--runtime", "magic"), "--runtime: 'magic' is none of auto, netns", id="no such runtime"
        ),
        pytest.param(
            ("up", "--fake-gpus", "-1"), "--fake-gpus: must be 0 or more (got -1)", id="negative GPUs"
        ),
        pytest.param(
            ("up", "--share-gpus", "many"),
            "--share-gpus: 'many' is not a whole number",
            id="no number of containers",
        ),
        pytest.param(
            ("up", "--allow-egress", "10.0.0.0/99"),
            "--allow-egress: '10.0.0.0/99' is not an",
            id="no network",
        ),
        pytest.param(
            ("up", "--notify-allow", "https://example.com"),
            "--notify-allow: 'https://example.com' is not an",
            id="no target of notifications",
        ),
        pytest.param(
            ("up", "--kubelet-certificate-authority", "/does/not/exist.crt"),
            "--kubelet-certificate-authority: cannot read /does/not/exist.crt: No such file",
            id="no CA",
        ),
        pytest.param(
            ("up", "--kubelet-certificate-authority", "/dev/null"),
            "--kubelet-certificate-authority: /dev/null contains no certificate in PEM form",
            id="an empty CA",
        ),
        pytest.param(
            ("up", "--kubelet-certificate-authority", "/proc/version"),
            "--kubelet-certificate-authority: /proc/version contains no certificate in PEM form",
            id="another file as CA",
        ),
        pytest.param(("down", "--keep-pods", "yes"), "unexpected argument 'yes'", id="a flag with a value"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], text: str, say: Callable[..., Shown]
) -> None:
    shown = say(*arguments)
    assert shown.code == 2
    assert text in shown.err


def test_gpus_can_be_shared_only_where_there_are_some(
    say: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcano.cli.volcano.settings.has_gpus", lambda: False)
    shown = say("up", "--share-gpus", "4")
    assert shown.code == 2
    assert "--share-gpus: this machine has no NVIDIA GPU; --fake-gpus N adds some" in shown.err


@pytest.mark.skipif(os.geteuid() == 0, reason="to root, namespaces may be possible")
def test_a_runtime_that_is_not_possible_is_refused_with_the_reason(
    tmp_path: Path, say: Callable[..., Shown]
) -> None:
    shown = say("run", "--runtime", "netns", write_job(tmp_path))
    assert shown.code == 1
    assert "netns" in shown.err
    assert "root" in shown.err


def test_an_engine_that_is_not_there_is_refused_with_the_reason(
    tmp_path: Path, say: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = say("run", "--runtime", "podman", write_job(tmp_path))
    assert shown.code == 1
    assert "there is no program podman on PATH" in shown.err


def test_a_wrong_file_leaves_no_directory_behind(
    tmp_path: Path, say: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert say("run", "missing.yaml").code == 1
    assert say("run", "--fake-gpus", "-1", write_job(tmp_path)).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["train.yaml"]


def test_nothing_to_take_down_is_said_also_where_pods_were_to_be_kept(say: Callable[..., Shown]) -> None:
    shown = say("down", "--keep-pods")
    assert (shown.code, "no cluster runs" in shown.err) == (4, True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "--images: {path}: no such file or directory"),
        (b"\xff\xfe", "--images: {path}: not a text file; an image map is YAML"),
        (
            b"images: [{image: a, paths: b}]",
            "--images: {path}: images[0] (a): paths: 'b' is no list of strings",
        ),
    ],
)
def test_an_image_map_that_cannot_be_used_is_reported_before_the_start(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "images.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        settings_of("up", "--images", str(path))
    assert str(caught.value).startswith(reason.format(path=path))


def test_an_image_map_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text("images: [{image: a, paths: [/b]}]")
    assert settings_of("up", "--images", str(path)).images.text == path.read_text()
    assert settings_of("up").images.text is None

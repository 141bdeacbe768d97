"""An invalid entry of the discovery configuration is named with its path, and does not affect the others."""

import pytest
import yaml

from volcano.controllers.hypernode.configuration import (
    Discovery,
    LabelSource,
    TopologyType,
    UfmSource,
    parse_discovery,
)
from volcano.kube.api.manifest import Key

LEVELS = [{"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


def parse(*entries: object) -> Discovery:
    text = yaml.safe_dump({"networkTopologyDiscovery": list(entries)})
    return parse_discovery(text, namespace="volcano-system")


def ufm(**config: object) -> dict[str, object]:
    return {
        "source": "ufm",
        "enabled": True,
        "credentials": {"secretRef": {"name": "ufm", "namespace": "net"}},
        "config": config,
    }


def label(types: object, **fields: object) -> dict[str, object]:
    return {"source": "label", "enabled": True, "config": {"networkTopologyTypes": types}, **fields}


def test_labels_are_narrowest_first_without_the_host() -> None:
    found = parse(label({"A3": LEVELS}))
    assert found.sources == {"label": LabelSource((TopologyType("A3", ("rack", "spine")),))}
    assert found.problems == ()


def test_an_endpoint_without_a_scheme_is_https() -> None:
    found = parse({**ufm(endpoint="ufm.example.com/"), "interval": "10m"}).sources["ufm"]
    assert found == UfmSource("https://ufm.example.com", Key("net", "ufm"), 600.0)


def test_certificates_are_verified_by_default_and_secrets_are_near_by_default() -> None:
    entry = {**ufm(endpoint="u"), "credentials": {"secretRef": {"name": "ufm"}}}
    found = parse(entry).sources["ufm"]
    assert isinstance(found, UfmSource)
    assert (found.verify, found.secret, found.interval) == (True, Key("volcano-system", "ufm"), 3600.0)
    lenient = parse(ufm(endpoint="u", insecureSkipVerify="true")).sources["ufm"]
    assert isinstance(lenient, UfmSource)
    assert not lenient.verify


@pytest.mark.parametrize("interval", [0, "-5m", "0s", None])
def test_an_interval_that_is_not_positive_is_an_hour(interval: object) -> None:
    found = parse({**ufm(endpoint="u"), "interval": interval}).sources["ufm"]
    assert isinstance(found, UfmSource)
    assert found.interval == 3600.0


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        pytest.param(
            {"source": "roce", "enabled": True},
            "networkTopologyDiscovery[0].source: 'roce' is unknown; choose from label, ufm",
            id="unknown source",
        ),
        pytest.param(
            ufm(),
            "networkTopologyDiscovery[0].config.endpoint: UFM endpoint is not configured; "
            "such as https://ufm.example.com",
            id="no endpoint",
        ),
        pytest.param(
            {"source": "ufm", "enabled": True, "config": {"endpoint": "u"}},
            "networkTopologyDiscovery[0].credentials.secretRef.name: UFM authentication credentials are not "
            "configured; name a Secret with the keys username and password",
            id="no credentials",
        ),
        pytest.param(
            ufm(endpoint="http://ufm"),
            "networkTopologyDiscovery[0].config.endpoint: 'http://ufm' must look like https://host:port; "
            "credentials are in a Secret",
            id="without encryption",
        ),
        pytest.param(
            ufm(endpoint="https://ufm:99999"),
            "networkTopologyDiscovery[0].config.endpoint: 'https://ufm:99999' must look like "
            "https://host:port; credentials are in a Secret",
            id="bad port",
        ),
        pytest.param(
            {**ufm(endpoint="u"), "interval": "soon"},
            "networkTopologyDiscovery[0].interval: 'soon' is not a duration; write numbers with units, such as "
            "1h30m, 45s or 500ms",
            id="bad interval",
        ),
        pytest.param(
            {"source": "ufm", "enabled": "maybe"},
            "networkTopologyDiscovery[0].enabled: 'maybe' must be true or false",
            id="bad switch",
        ),
        pytest.param(
            "label", "networkTopologyDiscovery[0]: must be a map, not 'label'", id="an entry that is no map"
        ),
        pytest.param(
            label([1]),
            "networkTopologyDiscovery[0].config.networkTopologyTypes: must be a map, not [1]",
            id="types that are no map",
        ),
    ],
)
def test_an_invalid_entry_is_named_and_the_others_are_used(entry: object, problem: str) -> None:
    good = ufm(endpoint="u") if isinstance(entry, dict) and entry.get("source") == "label" else label({})
    found = parse(entry, good)
    assert found.problems == (problem,)
    assert list(found.sources) == [good["source"]]


@pytest.mark.parametrize(
    ("name", "levels", "problem"),
    [
        ("a" * 21, LEVELS, f"{'a' * 21}: the name of a type has at most 20 characters"),
        (
            "t",
            [LEVELS[0], LEVELS[0]],
            "t[1].nodeLabel: the label spine is listed twice; list each once, widest first",
        ),
        ("t", [{}], "t[0].nodeLabel: '' is not the key of a label; such as example.com/rack"),
        ("t", "rack", "t: must be a list, not 'rack'"),
    ],
)
def test_an_invalid_type_is_left_out_and_the_others_are_used(name: str, levels: object, problem: str) -> None:
    found = parse(label({name: levels, "good": LEVELS}))
    assert found.problems == (f"networkTopologyDiscovery[0].config.networkTopologyTypes.{problem}",)
    assert found.sources == {"label": LabelSource((TopologyType("good", ("rack", "spine")),))}


def test_the_first_enabled_entry_of_a_source_is_used() -> None:
    off = {**label({"off": LEVELS}), "enabled": False}
    found = parse(off, label({"first": LEVELS}), label({"second": LEVELS}))
    assert found.sources == {"label": LabelSource((TopologyType("first", ("rack", "spine")),))}


@pytest.mark.parametrize("text", ["", "{}", "networkTopologyDiscovery:", "other: 1"])
def test_an_empty_configuration_has_no_sources(text: str) -> None:
    assert parse_discovery(text, namespace="n") == Discovery()


@pytest.mark.parametrize("text", ["a: [", "[1]", "networkTopologyDiscovery: 7"])
def test_text_that_is_no_configuration_leaves_every_source_as_it_is(text: str) -> None:
    found = parse_discovery(text, namespace="n")
    assert found.invalid == {"label", "ufm"}
    assert len(found.problems) == 1

"""Section `metrics` of the configuration: where the measured load of nodes comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from volcano.kube.api import duration
from volcano.scheduler.engine.arguments import Argument, Type, is_boolean, is_duration

METRICS_SERVER, PROMETHEUS, ADAPTOR, ELASTICSEARCH = (
    "metrics-server",
    "prometheus",
    "prometheus_adaptor",
    "elasticsearch",
)
TYPES = (METRICS_SERVER, PROMETHEUS, ADAPTOR, ELASTICSEARCH)
WITH_ADDRESS = (PROMETHEUS, ELASTICSEARCH)
COLLECTED_PERIOD = "10m"  # every value is an average of so long
STALE_AFTER = 300.0  # seconds after which a value is not used any more
DEFAULT_INTERVAL = 30.0


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_interval(text: str) -> bool:
    return is_duration(text) and duration.parse(text) > 0


KEYS = (
    Argument(
        "type", Type.TEXT, lambda value: value in ("", *TYPES), ", ".join(TYPES[:-1]) + f" or {TYPES[-1]}"
    ),
    Argument("address", Type.TEXT, _is_address, "an address such as http://prometheus.monitoring:9090"),
    Argument("interval", Type.TEXT, _is_interval, "a duration such as 30s"),
    Argument("nodeLabel", Type.TEXT),
    Argument("bearerToken", Type.TEXT),
    Argument("bearerTokenFile", Type.TEXT),
    Argument("tls.insecureSkipVerify", Type.ANY, is_boolean, "true or false"),
    Argument("tls.caFile", Type.TEXT),
    Argument("elasticsearch.index", Type.TEXT),
    Argument("elasticsearch.username", Type.TEXT),
    Argument("elasticsearch.password", Type.TEXT),
    Argument("elasticsearch.hostnameFieldName", Type.TEXT),
)


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """A source of load values; an empty type collects nothing."""

    type: str = ""
    address: str = ""
    interval: float = DEFAULT_INTERVAL  # seconds between collections
    node_label: str = ""  # label of Prometheus' series with the name of the node; "" tries the usual ones
    token: str = ""
    token_file: str = ""
    insecure: bool = False
    authority_file: str = ""
    index: str = "metricbeat-*"
    username: str = ""
    password: str = ""
    hostname_field: str = "host.hostname"

    @property
    def source(self) -> str:
        """The source as named in messages."""
        return f"{self.type} {self.address}" if self.address else self.type


def parse_load_settings(values: Mapping[str, Any]) -> LoadSettings:
    """Parses validated values."""

    def text(name: str, default: str = "") -> str:
        return str(values.get(name) or default)

    interval = text("interval")
    return LoadSettings(
        type=text("type"),
        address=text("address").rstrip("/"),
        interval=duration.parse(interval) if interval else DEFAULT_INTERVAL,
        node_label=text("nodeLabel"),
        token=text("bearerToken"),
        token_file=text("bearerTokenFile"),
        insecure=text("tls.insecureSkipVerify").lower() in ("true", "t", "1"),
        authority_file=text("tls.caFile"),
        index=text("elasticsearch.index", "metricbeat-*"),
        username=text("elasticsearch.username"),
        password=text("elasticsearch.password"),
        hostname_field=text("elasticsearch.hostnameFieldName", "host.hostname"),
    )

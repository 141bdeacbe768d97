"""Content negotiation: the media type and conversion an Accept header selects."""

import pytest

from volcano.apiserver.endpoints.negotiation import DISCOVERY_CONVERSIONS, MediaTypeOptions, negotiate
from volcano.kube.api.errors import NotAcceptable

KUBECTL_TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", MediaTypeOptions(), id="no preference"),
        pytest.param("*/*", MediaTypeOptions(), id="anything"),
        pytest.param("application/json, */*", MediaTypeOptions(), id="JSON first"),
        pytest.param(
            "application/vnd.kubernetes.protobuf,application/json",
            MediaTypeOptions(),
            id="client-go settles for JSON",
        ),
        pytest.param(KUBECTL_TABLE, MediaTypeOptions("application/json", "Table", "v1"), id="kubectl get"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            MediaTypeOptions("application/json", "PartialObjectMetadataList", "v1"),
            id="metadata only",
        ),
        pytest.param(
            "application/json;as=Nonsense;g=x;v=v1,application/json",
            MediaTypeOptions(),
            id="unknown conversion",
        ),
        pytest.param("application/yaml", MediaTypeOptions("application/yaml"), id="YAML"),
        pytest.param("application/yaml;q=0.1, application/json", MediaTypeOptions(), id="quality decides"),
        pytest.param(
            "application/yaml;q=x, application/json", MediaTypeOptions(), id="quality that is no number"
        ),
    ],
)
def test_the_best_acceptable_output_is_chosen(accept: str, expected: MediaTypeOptions) -> None:
    assert negotiate(accept) == expected


def test_aggregated_discovery_is_a_conversion_of_its_own() -> None:
    assert negotiate(KUBECTL_DISCOVERY, DISCOVERY_CONVERSIONS).convert_version == "v2"
    assert negotiate(KUBECTL_DISCOVERY).convert_kind == ""


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;as=Table;g=meta.k8s.io;v=v9", "image/*", ";,;"]
)
def test_an_unsupported_accept_header_is_rejected(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json"):
        negotiate(accept)

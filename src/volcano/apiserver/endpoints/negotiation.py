"""Content negotiation: the media type and conversion (Table, PartialObjectMetadata) that an Accept header selects."""

from dataclasses import dataclass

from volcano.kube.api.errors import NotAcceptable

JSON, YAML = "application/json", "application/yaml"
SERVED = (JSON, YAML)


@dataclass(frozen=True, slots=True)
class MediaTypeOptions:
    """Media type of a response and the kind its objects are converted to."""

    media_type: str = JSON
    convert_kind: str = ""  # the `as` parameter: Table, PartialObjectMetadata, APIGroupDiscoveryList, ...
    convert_version: str = ""


PLAIN_JSON = MediaTypeOptions()
# Kind, group and version of the conversions a client may ask for.
META_CONVERSIONS = frozenset(
    (kind, "meta.k8s.io", version)
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)
DISCOVERY_CONVERSIONS = frozenset(
    ("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) for version in ("v2", "v2beta1")
)


def negotiate(
    accept: str, conversions: frozenset[tuple[str, str, str]] = META_CONVERSIONS
) -> MediaTypeOptions:
    """Selects the first supported clause of an Accept header, best quality first; raises `NotAcceptable`."""
    if not accept or accept in ("*/*", JSON):
        return PLAIN_JSON
    for media_type, parameters in clauses(accept):
        media_type = JSON if media_type in ("*/*", "application/*") else media_type
        kind = parameters.get("as", "")
        if media_type not in SERVED:
            continue
        if not kind:
            return MediaTypeOptions(media_type)
        if (kind, parameters.get("g", ""), parameters.get("v", "")) in conversions:
            return MediaTypeOptions(media_type, kind, parameters["v"])
    raise NotAcceptable(f"only the following media types are accepted: {', '.join(SERVED)}")


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, best quality first."""
    clauses: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = {
            name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)
        }
        try:
            quality = float(parameters.get("q", "1"))
        except ValueError:
            quality = 0.0
        clauses.append((quality, media_type.lower(), parameters))
    clauses.sort(key=lambda clause: -clause[0])
    return [(media_type, parameters) for quality, media_type, parameters in clauses if quality > 0]

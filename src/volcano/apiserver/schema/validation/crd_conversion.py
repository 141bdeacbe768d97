"""Validation of the conversion of a CRD."""

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.webhook_configurations import client_config
from volcano.kube.api.formats.names import dns_1035_label, port_number
from volcano.kube.api.manifest import Manifest

_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_PATH = "spec.conversion"


def conversion(given: Manifest) -> Causes:
    """Validates the strategy of a conversion and its webhook."""
    strategy = given.get("strategy")
    yield from field.one_of(f"{_PATH}.strategy", strategy, _STRATEGIES, needed=True)
    webhook = given.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        for name, value in (("webhookClientConfig", client), ("conversionReviewVersions", versions)):
            if value:
                text = "should not be set when strategy is not set to Webhook"
                yield field.forbidden(f"{_PATH}.{name}", text)
        return
    if client is None:
        yield field.required(f"{_PATH}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config(client, f"{_PATH}.webhookClientConfig")
        port = (client.get("service") or {}).get("port")
        if port is not None and (errors := port_number(port)):
            where = f"{_PATH}.webhookClientConfig.service.port"
            yield field.invalid(where, port, f"port is not valid: {','.join(errors)}")
    yield from _review_versions(versions)


def _review_versions(versions: list[str]) -> Causes:
    path = f"{_PATH}.conversionReviewVersions"
    if not versions:
        yield field.required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield field.invalid(f"{path}[{index}]", version, "duplicate version")
        seen.add(version)
        if errors := dns_1035_label(version):
            yield field.invalid(f"{path}[{index}]", version, ",".join(errors))
    if not seen & set(_REVIEW_VERSIONS):
        yield field.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")

"""Validation of MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

from urllib.parse import urlsplit

from volcano.apiserver.schema.match_conditions import compile_match_condition
from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.kube.api.formats.names import dns_subdomain, port_number, qualified_name
from volcano.kube.api.manifest import Manifest
from volcano.kube.cel.program import InvalidExpression

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MOST_CONDITIONS = 64


def webhook_configuration(manifest: Manifest) -> Causes:
    """Validates a webhook configuration."""
    seen: set[str] = set()
    for index, hook in enumerate(manifest.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", hook.get("name") or ""
        if not name:
            yield field.required(f"{path}.name")
        elif errors := dns_subdomain(name):
            yield field.invalid(f"{path}.name", name, ",".join(errors))
        elif name.count(".") < 2:
            text = "should be a domain with at least three segments separated by dots"
            yield field.invalid(f"{path}.name", name, text)
        yield from field.unique(f"{path}.name", name, seen)
        yield from _webhook(hook, path)


def _webhook(hook: Manifest, path: str) -> Causes:
    for where, rule in field.items(hook, "rules", path):
        for name in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(name):
                yield field.required(f"{where}.{name}")
            for index, value in enumerate(rule.get(name) or ()):
                if not value and name in ("apiVersions", "resources"):
                    yield field.required(f"{where}.{name}[{index}]")
        for index, operation in enumerate(rule.get("operations") or ()):
            if operation not in _OPERATIONS:
                yield field.unsupported(f"{where}.operations[{index}]", operation, _OPERATIONS)
    yield from field.one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    yield from field.one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = ("None", "NoneOnDryRun")
    if not hook.get("sideEffects"):
        yield field.required(f"{path}.sideEffects", f"must specify one of {', '.join(effects)}")
    yield from field.one_of(f"{path}.sideEffects", hook.get("sideEffects"), effects)
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        yield field.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif not {"v1", "v1beta1"} & set(versions):
        yield field.invalid(
            f"{path}.admissionReviewVersions", versions, "must include at least one of v1, v1beta1"
        )
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        yield field.invalid(
            f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"
        )
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(hook.get(name), f"{path}.{name}")
    yield from match_conditions(hook, path)
    yield from _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def client_config(config: Manifest, path: str) -> Causes:
    """Validates how a webhook is reached."""
    yield from _client(config, path)


def _client(config: Manifest, path: str) -> Causes:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield field.required(path, "exactly one of url or service is required")
    elif url is not None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            text = f"url must be a valid URL: {error}; desired format: https://host[/path]"
            yield field.required(f"{path}.url", text)
            return
        form = "; desired format: https://host[/path]"
        if parts.scheme != "https":
            yield field.invalid(f"{path}.url", parts.scheme, f"'https' is the only allowed URL scheme{form}")
        user, _, host = parts.netloc.rpartition("@")
        if not host:
            yield field.invalid(f"{path}.url", "", f"host must be specified{form}")
        # Credentials belong in a Secret, and the path alone says what is called.
        if "@" in parts.netloc:
            yield field.invalid(f"{path}.url", user, "user information is not permitted in the URL")
        if parts.fragment:
            yield field.invalid(f"{path}.url", parts.fragment, "fragments are not permitted in the URL")
        if parts.query:
            yield field.invalid(f"{path}.url", parts.query, "query parameters are not permitted in the URL")
    elif service is not None:
        # parity: a real server reports each of the two fields under the name of the other.
        for name, reported in (("name", "namespace"), ("namespace", "name")):
            if not service.get(name):
                yield field.required(f"{path}.service.{reported}")
        port = service.get("port")
        if port is not None and (errors := port_number(port)):
            yield field.invalid(f"{path}.service.port", port, f"port is not valid: {', '.join(errors)}")
        yield from _service_path(service.get("path") or "", f"{path}.service.path")


def _service_path(value: str, path: str) -> Causes:
    """Validates the path of a webhook behind a Service: segments that are DNS subdomains."""
    if value in ("", "/"):
        return
    if value == "//":
        yield field.invalid(path, value, "segment[0] may not be empty")
        return
    if not value.startswith("/"):
        yield field.invalid(path, value, "must start with a '/'")
    for index, step in enumerate(value[1:].removesuffix("/").split("/")):
        if not step:
            yield field.invalid(path, value, f"segment[{index}] may not be empty")
        for error in dns_subdomain(step) if step else ():
            yield field.invalid(path, value, f"segment[{index}]: {error}")


def match_conditions(hook: Manifest, path: str) -> Causes:
    """Validates the match conditions of one webhook: names, and that every expression compiles."""
    conditions = hook.get("matchConditions") or ()
    if len(conditions) > MOST_CONDITIONS:
        yield field.too_many(f"{path}.matchConditions", len(conditions), MOST_CONDITIONS)
        return
    seen: set[str] = set()
    for where, condition in field.items(hook, "matchConditions", path):
        name = condition.get("name") or ""
        if not name:
            yield field.required(f"{where}.name")
        elif name in seen:
            yield field.duplicate(f"{where}.name", name)
        else:
            yield from field.each(f"{where}.name", name, qualified_name(name))
        seen.add(name)
        source = (condition.get("expression") or "").strip()
        if not source:
            yield field.required(f"{where}.expression")
            continue
        try:
            compile_match_condition(source)
        except InvalidExpression as error:
            yield field.invalid(f"{where}.expression", condition["expression"], str(error))

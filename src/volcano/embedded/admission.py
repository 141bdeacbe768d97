"""The admission rules of Volcano's webhooks as plugins of the embedded API server's admission chain."""

import copy
from collections.abc import Iterable
from pathlib import Path

from volcano.apiserver.interfaces import AdmissionPlugin, Attributes, FunctionPlugin, Lookup
from volcano.apiserver.registry.pod_defaulting import default_template
from volcano.apiserver.schema.validation.pods import template
from volcano.apiserver.warnings import warn
from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.controllers.job.plugins.loading import known_plugins
from volcano.embedded.logs import component
from volcano.kube.api.errors import ApiError, Cause, Forbidden, Invalid
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.resourcegroups import GroupsFile, RefreshedGroups
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest, Violation, no_resource_groups
from volcano.webhooks.rules import applies_to, mutate, validate, warnings

log = Log("admission")

ADMISSION = "volcano-admission"  # component of the log lines


def admission_options(groups: Path | None = None, clock: Clock | None = None) -> AdmissionOptions:
    """Options of admission, with the resource groups of a file. Raises ValueError or OSError when it is invalid."""
    assert groups is None or clock is not None
    return AdmissionOptions(
        check_template=check_template,
        job_plugins=frozenset(known_plugins()),
        resource_groups=RefreshedGroups(GroupsFile(groups), clock)
        if groups and clock
        else no_resource_groups,
    )


def check_template(value: Manifest) -> Iterable[Cause]:
    """Kubernetes' own validation of a pod template, after its defaults."""
    holder = {"template": copy.deepcopy(value)}
    default_template(holder)
    for cause in template(holder["template"], "template"):
        yield cause._replace(field=cause.field.removeprefix("template."))


def mutating_plugin(options: AdmissionOptions) -> AdmissionPlugin:
    """Sets the defaults of the batch kinds."""

    async def admit(
        attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if attributes.subresource or new is None:
            return new
        return mutate(_request(attributes, new, old, lookup, options))

    return FunctionPlugin(admit, applies_to)


def validating_plugin(options: AdmissionOptions) -> AdmissionPlugin:
    """Validates the batch kinds. Their schemas are checked before, so that values have the right types."""

    async def admit(
        attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if attributes.subresource:
            return new
        request = _request(attributes, new, old, lookup, options)
        violations = validate(request)
        if violations:
            reason = "; ".join(map(str, violations))
            with component(ADMISSION):
                log.info("request denied", kind=attributes.kind.kind, object=attributes.key, reason=reason)
            raise _rejection(attributes, violations)
        for text in warnings(request):
            warn(text)
        return new

    return FunctionPlugin(admit, applies_to)


def _request(
    attributes: Attributes,
    new: Manifest | None,
    old: Manifest | None,
    lookup: Lookup,
    options: AdmissionOptions,
) -> AdmissionRequest:
    operation, user = attributes.operation, attributes.user.name
    return AdmissionRequest(operation, attributes.kind, attributes.key, new, old, lookup, options, user)


def _rejection(attributes: Attributes, violations: list[Violation]) -> ApiError:
    kind, name = attributes.kind, attributes.key.name
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = "; ".join(map(str, violations))
    if attributes.operation == "DELETE":
        message = f'{kind.resource} "{name}" is forbidden: {text}'
        return Forbidden(message, name=name, group=kind.group, kind=kind.plural)
    return Invalid(
        f'{title} "{attributes.key.name}" is invalid: {text}',
        causes=[Cause("FieldValueInvalid", violation.message, violation.field) for violation in violations],
        name=attributes.key.name,
        group=kind.group,
        kind=kind.kind,
    )

"""The admission chain: every plugin, in the order in which a request passes them."""

from collections.abc import Collection

from volcano.apiserver.admission.certificate_requests import CertificateRequests
from volcano.apiserver.admission.claims import admit_claim
from volcano.apiserver.admission.device_claims import DeviceClaims
from volcano.apiserver.admission.node_restriction import NodeRestriction
from volcano.apiserver.admission.pods import PodAdmission, admit_limits
from volcano.apiserver.admission.podsecurity.admission import PodSecurity
from volcano.apiserver.admission.quota import admit_quota
from volcano.apiserver.admission.runtime_classes import admit_runtime_class
from volcano.apiserver.admission.schema_check import CustomResourceSchema, CustomResourceTypes
from volcano.apiserver.admission.services import ServiceAdmission
from volcano.apiserver.admission.webhooks import Webhooks
from volcano.apiserver.authn.access_control import AccessControl
from volcano.apiserver.authn.token_requests import TokenSecrets
from volcano.apiserver.authz.escalation import EscalationCheck
from volcano.apiserver.interfaces import (
    AdmissionFunction,
    AdmissionPlugin,
    Attributes,
    FunctionPlugin,
    Lookup,
    admission_plugin,
)
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.schema.crds import admit_crd
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

# The plugins that only default, limit and count; the others enforce access and schemas and call webhooks.
RESOURCE_PLUGINS = frozenset(
    {
        "PodDefaults",
        "RuntimeClass",
        "DefaultStorageClass",
        "CustomResourceNames",
        "LimitRanger",
        "ServiceAddresses",
        "ResourceQuota",
    }
)


async def _pass(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    return new


NO_PLUGIN = FunctionPlugin(_pass, lambda kind: False)


def admission_chain(
    kinds: KindTable,
    access: AccessControl,
    webhooks: Webhooks,
    *,
    mutating: AdmissionPlugin = NO_PLUGIN,
    validating: AdmissionPlugin = NO_PLUGIN,
    disabled: Collection[str] = (),
    pod_security: PodSecurity | None = None,
) -> AdmissionFunction:
    """Admission of a server, without the `disabled` plugins.

    `mutating` and `validating` are the rules for the batch kinds, which Volcano's webhooks apply on other clusters.
    """
    plugins: list[tuple[str, AdmissionPlugin]] = [
        # The types in a custom resource are right for every plugin below; fields may still be missing.
        ("CustomResourceTypes", CustomResourceTypes(kinds)),
        ("NodeRestriction", NodeRestriction(access.authorizer)),
        # Mutating plugins come first, so that webhooks receive complete objects.
        ("TokenSecrets", TokenSecrets(access.tokens, access.authority)),
        # Priority, service account, tolerations, default requests and limits.
        ("PodDefaults", PodAdmission()),
        ("RuntimeClass", admit_runtime_class),
        ("DefaultStorageClass", admit_claim),
        ("CustomResourceNames", admit_crd),  # a CRD with conflicting names is stored, but not served
        ("BatchDefaults", mutating),
        # Webhooks may override every default above.
        ("MutatingAdmissionWebhook", admission_plugin()(webhooks.mutate)),
        # The whole schema, after the last mutation: validating plugins rely on it.
        ("CustomResourceSchema", CustomResourceSchema(kinds)),
        # Roles and bindings are checked as they will be stored.
        ("EscalationCheck", EscalationCheck(access.authorizer)),
        # No webhook changes the user of a certificate request.
        ("CertificateRequests", CertificateRequests(access.authorizer)),
        ("DeviceClaims", DeviceClaims(access.authorizer)),
        ("PodSecurity", pod_security or PodSecurity()),
        ("ValidatingAdmissionWebhook", admission_plugin()(webhooks.validate)),
        ("BatchRules", validating),
        ("LimitRanger", admit_limits),
        # Addresses and ports are allocated just before the write, so that no other request takes them meanwhile.
        ("ServiceAddresses", ServiceAdmission()),
        # Last, and nothing is awaited between it and the write: usage as counted is usage as stored.
        ("ResourceQuota", admit_quota),
    ]
    return chain(*(plugin for name, plugin in plugins if name not in disabled))


def chain(*plugins: AdmissionPlugin) -> AdmissionFunction:
    """Applies the plugins that handle the kind of a request one after another, each to the result of the previous."""
    plugins_of: dict[Kind, tuple[AdmissionPlugin, ...]] = {}

    async def admit(
        attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        handling = plugins_of.get(attributes.kind)
        if handling is None:
            handling = tuple(plugin for plugin in plugins if plugin.handles(attributes.kind))
            plugins_of[attributes.kind] = handling
        for plugin in handling:
            new = await plugin(attributes, new, old, lookup)
        return new

    return admit

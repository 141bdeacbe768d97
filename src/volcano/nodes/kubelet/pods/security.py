"""User, groups and privileges of a container, from the security contexts of pod and container."""

from collections.abc import Mapping
from typing import Any

from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.pods.status import full_name
from volcano.nodes.shim.specs import Failure, Identity, Security

CONFIG_ERROR = "CreateContainerConfigError"


def identity_of(
    pod: Manifest, container: Mapping[str, Any], default_user: int | None, image_user: int | None = None
) -> Identity:
    """The user and groups of a container; `default_user` is the runtime's default, `image_user` that of a mapped image.

    Raises a Failure when the container must not run as root and would. Where the image decides
    (`default_user` is None), the runtime has to check.
    """
    shared = pod["spec"].get("securityContext") or {}
    own = container.get("securityContext") or {}
    user, group = _first(own, shared, "runAsUser"), _first(own, shared, "runAsGroup")
    not_root = bool(_first(own, shared, "runAsNonRoot"))
    default_user = default_user if image_user is None else image_user
    if not_root and (default_user if user is None else user) == 0:
        why = (
            "container has runAsNonRoot and image will run as root"
            if user is None
            else "container's runAsUser breaks non-root policy"
        )
        raise Failure(CONFIG_ERROR, f'{why} (pod: "{full_name(pod)}", container: {container["name"]})')
    user = image_user if user is None else user
    groups = [*(shared.get("supplementalGroups") or ())]
    if shared.get("fsGroup") is not None:
        groups.append(shared["fsGroup"])
    return Identity(user, group, tuple(dict.fromkeys(groups)), not_root=not_root and user is None)


def security_of(pod: Manifest, container: Mapping[str, Any]) -> Security:
    """The privileges of a container. Raises a Failure for a seccomp profile that this node does not have."""
    profile = _seccomp_profile(pod, container)
    own = container.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    return Security(
        privileged=bool(own.get("privileged")),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        add_capabilities=tuple(capabilities.get("add") or ()),
        drop_capabilities=tuple(capabilities.get("drop") or ()),
        default_seccomp=profile == "RuntimeDefault",
        no_seccomp=profile == "Unconfined",
    )


def _seccomp_profile(pod: Manifest, container: Mapping[str, Any]) -> str:
    shared = pod["spec"].get("securityContext") or {}
    profile = _first(container.get("securityContext") or {}, shared, "seccompProfile") or {}
    if profile.get("type") == "Localhost":
        raise Failure(
            CONFIG_ERROR,
            f'seccompProfile Localhost ("{profile.get("localhostProfile", "")}") of container {container["name"]} is '
            "not supported: this node has no profiles of its own; use RuntimeDefault or Unconfined",
        )
    return str(profile.get("type") or "")


def _first(own: Mapping[str, Any], shared: Mapping[str, Any], name: str) -> Any:
    value = own.get(name)
    return shared.get(name) if value is None else value

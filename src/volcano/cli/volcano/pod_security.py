"""The `--pod-security` option: a level of the Pod Security Standards, or a PodSecurityConfiguration file."""

from pathlib import Path

from volcano.apiserver.admission.podsecurity.policy import (
    LEVELS,
    PRIVILEGED,
    ConfigurationError,
    PodSecurityConfiguration,
    default_configuration,
    read_configuration,
)
from volcano.base.os_errors import explain_os_error
from volcano.kube.api.names import SYSTEM_NAMESPACE

# The level of `volcano up` with nodes on this host: their pods share its kernel and, by hostPath, its files.
SHARED_HOST_LEVEL = "baseline"
# Namespaces of the system, whose pods may use the host.
EXEMPT_NAMESPACES = ("kube-system", SYSTEM_NAMESPACE)


def pod_security(option: str | None, *, shared_host: bool) -> PodSecurityConfiguration:
    """The configuration that an option asks for, or the default. Raises ConfigurationError."""
    if option is None:
        level = SHARED_HOST_LEVEL if shared_host else PRIVILEGED
        return default_configuration(level, EXEMPT_NAMESPACES)
    if option in LEVELS:
        return default_configuration(option, EXEMPT_NAMESPACES)
    try:
        text = Path(option).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{option!r} is neither a level ({', '.join(LEVELS)}) nor a file that can be read: {_reason(error)}"
        ) from None
    try:
        return read_configuration(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option}: {error}") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "not a text file" if isinstance(error, UnicodeDecodeError) else explain_os_error(error)

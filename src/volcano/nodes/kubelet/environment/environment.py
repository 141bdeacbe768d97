"""Environment and command of a container: Services, `envFrom` and `env`, in the kubelet's order."""

import base64
from collections.abc import Iterator, Mapping

from volcano.kube.api.manifest import Manifest, key_of
from volcano.nodes.kubelet.environment.downward import PodInfo, UnknownField, field_value, resource_value
from volcano.nodes.kubelet.environment.env_files import BadEnvFile, env_file_value, read_env_file
from volcano.nodes.kubelet.environment.expansion import expand
from volcano.nodes.kubelet.environment.references import API_SERVICE, References
from volcano.nodes.shim.specs import Failure

CONFIG_ERROR = "CreateContainerConfigError"
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_HOSTNAME_LENGTH = 63
# Set by the runtime for every container. As in Kubernetes, references in commands do not resolve to them.
_BY_RUNTIME = frozenset(("HOME", "HOSTNAME", "PATH", "TERM"))
_NO_PATHS: Mapping[str, str] = {}
_NO_VARIABLES: Mapping[str, str] = {}


def environment(
    pod: Manifest,
    container: Manifest,
    references: References,
    info: PodInfo,
    *,
    program_path: str = "",
    volume_paths: Mapping[str, str] = _NO_PATHS,
    api: tuple[str, int] | None = None,
    image_variables: Mapping[str, str] = _NO_VARIABLES,
) -> dict[str, str]:
    """The environment of a container.

    `image_variables` are those of a mapped image; all but the defaults have precedence.
    `program_path` replaces the standard PATH; `volume_paths` are the paths of the pod's volumes, for
    variables that are read from files; `api` is the address and port of the API server, if not those of
    its Service. Raises a Failure when a required object or key is missing.
    """
    linked = pod["spec"].get("enableServiceLinks", True)
    services = service_variables(references, linked=linked) | (_api_service_links(*api) if api else {})
    declared = _from_objects(pod, container, references)
    for variable in container.get("env") or ():
        value = variable.get("value") or ""
        if value:
            value = expand(value, declared, services)
        elif variable.get("valueFrom"):
            found = _ValueSource(pod, container, references, info, volume_paths).value(variable)
            if found is None:
                continue  # optional and missing
            value = found
        declared[variable["name"]] = value
    return _defaults(pod, container, info, program_path) | dict(image_variables) | services | declared


def own_command(
    container: Manifest, environment: Mapping[str, str], image_variables: Mapping[str, str] = _NO_VARIABLES
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The expanded `command` and `args` of a container. As in Kubernetes, references do not resolve to variables of
    the runtime or the image."""
    own = {variable["name"] for variable in container.get("env") or ()}
    hidden = _BY_RUNTIME | image_variables.keys()
    known = {name: value for name, value in environment.items() if name not in hidden or name in own}
    command, arguments = (container.get(field) or () for field in ("command", "args"))
    return tuple(expand(word, known) for word in command), tuple(expand(word, known) for word in arguments)


def hostname_of(pod: Manifest, info: PodInfo) -> str:
    """The hostname of a pod: that in its spec, else its name, at most 63 characters."""
    if pod["spec"].get("hostNetwork"):
        return info.node_name
    override = pod["spec"].get("hostnameOverride")
    name = str(override or pod["spec"].get("hostname") or key_of(pod).name)
    return name[:MAX_HOSTNAME_LENGTH].rstrip("-.") if len(name) > MAX_HOSTNAME_LENGTH else name


def service_variables(references: References, *, linked: bool) -> dict[str, str]:
    """Variables of the API server's Service and (`linked`) of the namespace's other Services with an address."""
    variables: dict[str, str] = {}
    for service in references.services:
        address = service["spec"].get("clusterIP") or "None"
        if address != "None" and (linked or key_of(service) == API_SERVICE):
            variables.update(_service_links(service, address))
    return variables


def _api_service_links(address: str, port: int) -> dict[str, str]:
    """The variables of the API server's Service, at another address."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    metadata = {"namespace": API_SERVICE.namespace, "name": API_SERVICE.name}
    return dict(_service_links({"metadata": metadata, "spec": {"ports": ports}}, address))


def _service_links(service: Manifest, address: str) -> Iterator[tuple[str, str]]:
    prefix = _variable_name(key_of(service).name)
    ports = service["spec"].get("ports") or ()
    yield f"{prefix}_SERVICE_HOST", address
    for position, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        where = f"{protocol.lower()}://{address}:{number}"
        if position == 0:
            yield f"{prefix}_SERVICE_PORT", str(number)
            yield f"{prefix}_PORT", where
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_variable_name(port['name'])}", str(number)
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        yield link, where
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(number)
        yield f"{link}_ADDR", address


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


def _defaults(pod: Manifest, container: Manifest, info: PodInfo, program_path: str) -> dict[str, str]:
    user = (container.get("securityContext") or {}).get("runAsUser")
    if user is None:
        user = (pod["spec"].get("securityContext") or {}).get("runAsUser")
    variables = {
        "PATH": program_path or STANDARD_PATH,
        "HOSTNAME": hostname_of(pod, info),
        "HOME": "/" if user else "/root",
    }
    return variables | ({"TERM": "xterm"} if container.get("tty") else {})


def _from_objects(pod: Manifest, container: Manifest, references: References) -> dict[str, str]:
    return {name: value for name, value in _env_from(pod, container, references) if _is_valid_name(name)}


def _env_from(pod: Manifest, container: Manifest, references: References) -> Iterator[tuple[str, str]]:
    """The variables of `envFrom`; later ones override earlier ones."""
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        if reference := source.get("configMapRef"):
            found = _object(references.config_maps, reference, "configmap")
            yield from ((prefix + key, value) for key, value in ((found or {}).get("data") or {}).items())
        elif reference := source.get("secretRef"):
            found = _object(references.secrets, reference, "secret")
            for key, value in ((found or {}).get("data") or {}).items():
                yield prefix + key, _decoded(value)


def _is_valid_name(name: str) -> bool:
    """Whether a variable of this name can be set; Kubernetes allows any printable name."""
    return bool(name) and "=" not in name and name.isascii() and name.isprintable()


def _object(known: Mapping[str, Manifest | None], reference: Manifest, kind: str) -> Manifest | None:
    name = reference.get("name") or ""
    found = known.get(name)
    if found is None and not reference.get("optional"):
        raise Failure(CONFIG_ERROR, f'{kind} "{name}" not found')
    return found


def _decoded(value: str) -> str:
    """A Secret's value as text; invalid UTF-8 is escaped as surrogates, as in `os.environ`."""
    return base64.b64decode(value).decode("utf-8", "surrogateescape")


class _ValueSource:
    """Resolves `valueFrom` of variables."""

    def __init__(
        self,
        pod: Manifest,
        container: Manifest,
        references: References,
        info: PodInfo,
        volume_paths: Mapping[str, str],
    ) -> None:
        self._pod = pod
        self._container = container
        self._references = references
        self._info = info
        self._volume_paths = volume_paths

    def value(self, variable: Manifest) -> str | None:
        """The value; None when it is optional and missing."""
        source = variable["valueFrom"]
        try:
            if field := source.get("fieldRef"):
                return field_value(self._pod, field["fieldPath"], self._info)
            if resource := source.get("resourceFieldRef"):
                return resource_value(self._pod, resource, self._info, self._container["name"])
        except UnknownField as error:
            raise Failure(CONFIG_ERROR, f"variable {variable['name']}: {error}") from None
        if reference := source.get("configMapKeyRef"):
            return self._key(self._references.config_maps, reference, "ConfigMap")
        if reference := source.get("secretKeyRef"):
            encoded = self._key(self._references.secrets, reference, "Secret")
            return None if encoded is None else _decoded(encoded)
        if reference := source.get("fileKeyRef"):
            return self._from_file(reference)
        raise Failure(
            CONFIG_ERROR,
            f"variable {variable['name']}: valueFrom names none of fieldRef, resourceFieldRef, configMapKeyRef, "
            "secretKeyRef and fileKeyRef",
        )

    def _key(self, known: Mapping[str, Manifest | None], reference: Manifest, kind: str) -> str | None:
        found = _object(known, reference, kind.lower())
        value: str | None = ((found or {}).get("data") or {}).get(reference["key"])
        if value is None and not reference.get("optional"):
            where = f"{key_of(self._pod).namespace}/{reference['name']}"
            raise Failure(CONFIG_ERROR, f"couldn't find key {reference['key']} in {kind} {where}")
        return value

    def _from_file(self, reference: Manifest) -> str | None:
        volume, path, key = reference["volumeName"], reference["path"], reference["key"]
        if volume not in self._volume_paths:
            raise Failure(CONFIG_ERROR, f'cannot find the volume "{volume}" referenced by FileKeyRef')
        try:
            value = env_file_value(read_env_file(self._volume_paths[volume], path), key)
        except (OSError, UnicodeDecodeError, BadEnvFile) as error:
            raise Failure(
                CONFIG_ERROR, f"couldn't parse env file {path} of volume {volume}: {error}"
            ) from None
        if not value and not reference.get("optional"):
            raise Failure(CONFIG_ERROR, f'environment variable key "{key}" not found in file "{path}"')
        return value or None

"""Certificates of the webhook manager: provided by the user, or self-signed in a Secret shared by all
replicas."""

import argparse
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from volcano.base.clock import Clock, Instant
from volcano.base.http.tls import (
    Authority,
    Credential,
    covers,
    create_authority,
    expires_at,
    issue,
    issued_by,
    needs_renewal,
)
from volcano.base.log import Log
from volcano.kube.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client

log = Log("certificates")

SECRET_NAME = "volcano-admission-secret"
RETRY = 2.0


@dataclass(frozen=True, slots=True)
class Certificates:
    """CA bundle for the API server, and the serving certificate."""

    authority: bytes
    server: Credential


async def certificates(arguments: argparse.Namespace, client: Client, clock: Clock) -> Certificates:
    """Loads the user's certificates, or creates and renews self-signed ones in a Secret shared by all
    replicas."""
    files = (arguments.ca_cert_file, arguments.tls_cert_file, arguments.tls_private_key_file)
    if all(files):
        authority, certificate, key = (path.read_bytes() for path in files)
        return Certificates(authority, Credential(certificate, key))
    secret = Key(arguments.webhook_namespace or "volcano-system", arguments.certificate_secret)
    return await shared_certificates(client, secret, _hosts(arguments), clock)


async def shared_certificates(
    client: Client, secret: Key, hosts: Sequence[str], clock: Clock
) -> Certificates:
    """Creates and renews self-signed certificates in a Secret."""
    while True:
        try:
            return await _shared(client, secret, hosts, clock.now())
        except (AlreadyExists, Conflict):
            continue  # another replica created it first: use that one
        except ApiError as error:
            log.warning("certificates not stored, retrying", reason=error.message)
            await clock.sleep(RETRY)


async def _shared(client: Client, key: Key, hosts: Sequence[str], now: Instant) -> Certificates:
    try:
        secret: Manifest | None = await client.get(SECRET, key)
    except NotFound:
        secret = None
    data = _decoded((secret or {}).get("data") or {})
    if _good(data, hosts, now):
        return Certificates(data["ca.crt"], Credential(data["tls.crt"], data["tls.key"]))
    authority, trusted = _authority(data, now)
    server = issue(authority, hosts[0], hosts=hosts, now=now.wall, server=True)
    content = {
        "ca.crt": trusted,
        "ca.key": authority.key_pem,
        "tls.crt": server.cert_pem,
        "tls.key": server.key_pem,
    }
    metadata: Manifest = {"name": key.name, "namespace": key.namespace}
    if secret is not None:
        metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": (secret or {}).get("type", "Opaque"),
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }
    await (client.create(SECRET, manifest) if secret is None else client.update(SECRET, manifest))
    return Certificates(trusted, server)


def _authority(data: dict[str, bytes], now: Instant) -> tuple[Authority, bytes]:
    """Signing CA and the CA bundle; after a change of CA the previous one stays in the bundle for a while.

    Another replica serves a certificate of the previous CA until it reads the Secret again.
    """
    old, key = data.get("ca.crt", b""), data.get("ca.key", b"")
    try:
        if old and key and not needs_renewal(old, now.wall):
            return Authority(old, key), old
        still_good = bool(old) and expires_at(old) > now.wall
    except ValueError:
        still_good = False
    fresh = create_authority("volcano-admission", now=now.wall)
    return fresh, fresh.cert_pem + (_first(old) if still_good else b"")


def _first(bundle: bytes) -> bytes:
    """First certificate of a PEM bundle."""
    end = b"-----END CERTIFICATE-----\n"
    return bundle.partition(end)[0] + end


def _decoded(data: Manifest) -> dict[str, bytes]:
    """Decoded values of a Secret; invalid base64 counts as absent."""
    decoded = {}
    for name, text in data.items():
        try:
            decoded[name] = base64.b64decode(text or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return decoded


def _good(data: dict[str, bytes], hosts: Sequence[str], now: Instant) -> bool:
    if not all(data.get(name) for name in ("ca.crt", "tls.crt", "tls.key")):
        return False
    try:
        return (
            covers(data["tls.crt"], hosts)
            and not needs_renewal(data["tls.crt"], now.wall)
            and not needs_renewal(data["ca.crt"], now.wall)
            and issued_by(data["tls.crt"], Credential(data["ca.crt"], b""))
        )
    except ValueError:
        return False


def _hosts(arguments: argparse.Namespace) -> list[str]:
    if arguments.webhook_url:
        authority = arguments.webhook_url.split("://")[-1].split("/")[0]
        return [authority.rpartition(":")[0].strip("[]") or authority]
    return service_hosts(Key(arguments.webhook_namespace, arguments.webhook_service_name))


def service_hosts(service: Key) -> list[str]:
    """Host names of a Service."""
    namespace, name = service
    return [f"{name}.{namespace}.svc", f"{name}.{namespace}", name, f"{name}.{namespace}.svc.cluster.local"]

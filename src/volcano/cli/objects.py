"""Which object a command line means, and what to say when there is none of that name."""

import argparse

from volcano.cli.errors import CommandError, Missing, UsageError, near
from volcano.cli.session import Session
from volcano.kube.client import Options, Query
from volcano.kube.errors import ApiError, NotFound
from volcano.kube.kinds import COMMAND, Kind
from volcano.kube.manifest import Key, Manifest, owner_reference


def target(arguments: argparse.Namespace, session: Session, complaint: str) -> Key:
    """The namespace and name meant. `-n X` is the namespace, unless nothing else gives the name: then it is that.

    Without any name, `complaint` is the usage error.
    """
    named = arguments.position or arguments.name
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = named or arguments.short_n
    if not name:
        raise UsageError(complaint)
    namespace = arguments.namespace or (arguments.short_n if named else "") or session.namespace
    return Key(namespace, name)


def named(arguments: argparse.Namespace, complaint: str) -> Key:
    """The name meant, of an object that lives in no namespace."""
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = arguments.position or arguments.name
    if not name:
        raise UsageError(complaint)
    return Key("", name)


def namespace(arguments: argparse.Namespace, session: Session) -> str:
    """The namespace that a list is about; empty for all of them."""
    if getattr(arguments, "all_namespaces", False):
        return ""
    return arguments.namespace or arguments.short_n or session.namespace


async def find(session: Session, kind: Kind, key: Key) -> Manifest:
    """The object; raises Missing with the near name when there is none."""
    try:
        return await session.client.get(kind, key)
    except NotFound as error:
        raise await missing(session, kind, key, error) from None


async def delete(session: Session, kind: Kind, key: Key) -> None:
    """Deletes the object, and what it owns after it; raises Missing with the near name when there is none."""
    try:
        await session.client.delete(kind, key, options=Options(propagation="Background"))
    except NotFound as error:
        raise await missing(session, kind, key, error) from None


async def missing(session: Session, kind: Kind, key: Key, error: ApiError) -> Exception:
    """The error for a name that is not there, with the name that may have been meant."""
    if not error.name:  # not the object, but its kind is unknown to the server
        return error
    try:
        listing = await session.client.list(kind, Query(namespace=key.namespace))
    except ApiError:  # whoever may not list gets no hint
        return Missing(error.message)
    names = [item["metadata"]["name"] for item in listing.items]
    where = f" in namespace {key.namespace!r}" if key.namespace else ""
    return Missing(f"{kind.singular} {key.name!r} not found{where}{near(key.name, names)}")


def read_objects(path: str, kind: Kind) -> list[Manifest]:
    """The objects of a file, which must all be of one kind."""
    from volcano.local.files import FileError, read_files

    try:
        documents = read_files([path])
    except FileError as error:
        raise CommandError(str(error)) from None
    for document in documents:
        said = document.manifest["apiVersion"], document.manifest["kind"]
        if said != (kind.api_version, kind.kind):
            raise CommandError(
                f"{document.source}: is a {said[1]} of {said[0]}; a {kind.kind} of {kind.api_version} was expected"
            )
    if not documents:
        raise CommandError(f"{path}: holds no {kind.kind}")
    return [document.manifest for document in documents]


async def send_command(session: Session, owner: Manifest, action: str, namespace: str) -> None:
    """Creates the Command that asks for an action on an object, and that goes with it."""
    reference = owner_reference(owner)
    command = {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
    }
    await session.client.create(COMMAND, command)

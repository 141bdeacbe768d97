"""Objects named on a command line: name resolution and files."""

import argparse

from volcano.cli.errors import CommandError, UsageError
from volcano.cli.session import Session
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest


def target(arguments: argparse.Namespace, session: Session, message: str) -> Key:
    """Resolves namespace and name. `-n X` is the namespace, or the name if nothing else gives one.

    Raises UsageError with `message` if there is no name.
    """
    named = arguments.position or arguments.name
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = named or arguments.short_n
    if not name:
        raise UsageError(message)
    namespace = arguments.namespace or (arguments.short_n if named else "") or session.namespace
    return Key(namespace, name)


def named(arguments: argparse.Namespace, message: str) -> Key:
    """Resolves the name of a cluster-scoped object."""
    if arguments.position and arguments.name and arguments.position != arguments.name:
        raise UsageError(f"two names are given, {arguments.position!r} and {arguments.name!r}; choose one")
    name = arguments.position or arguments.name
    if not name:
        raise UsageError(message)
    return Key("", name)


def namespace(arguments: argparse.Namespace, session: Session) -> str:
    """Namespace of a list; empty for all."""
    if getattr(arguments, "all_namespaces", False):
        return ""
    return arguments.namespace or arguments.short_n or session.namespace


def read_objects(path: str, kind: Kind) -> list[Manifest]:
    """Reads the objects of a file, which must all be of one kind."""
    from volcano.embedded.files import FileError, read_files

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

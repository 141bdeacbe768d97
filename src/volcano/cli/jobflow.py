"""`vcctl jobflow` and `vcctl jobtemplate`: the same five commands for two kinds."""

import argparse
from collections.abc import Awaitable, Callable, Sequence

from volcano.cli import flags, objects
from volcano.cli.errors import FAILED, UsageError
from volcano.cli.listing import NOTHING, Listing, show, show_one
from volcano.cli.objects import read_objects
from volcano.cli.parsing import Run
from volcano.cli.printing.output import render, without_fields_of_managers
from volcano.cli.printing.tables import Column, longest
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB_FLOW, JOB_TEMPLATE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import Options, Query
from volcano.services.objects import delete_object, find
from volcano.views.times import age

FOUR_MORE = longest(4)
FORMATS = ("yaml", "json")


def _columns(kind: Kind, now: float) -> Sequence[Column]:
    common = (
        Column("Name", lambda item: key_of(item).name, FOUR_MORE),
        Column("Namespace", lambda item: key_of(item).namespace, FOUR_MORE),
    )
    if kind == JOB_TEMPLATE:
        return common
    return (
        *common,
        Column("Phase", lambda flow: _phase(flow), FOUR_MORE, coloured=True),
        Column("Age", lambda flow: age(flow["metadata"].get("creationTimestamp"), now), FOUR_MORE),
    )


def _phase(flow: Manifest) -> str:
    return str(((flow.get("status") or {}).get("state") or {}).get("phase", ""))


def _listing(kind: Kind, session: Session) -> Listing:
    columns = _columns(kind, session.clock.now().wall)
    return Listing(kind, lambda objects: columns, namespace_column=None)


def _file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--file", default="", metavar="FILE", help="YAML file with the objects")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_list(parser)


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "object")
    flags.add_output(parser)


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "object")
    _file_arguments(parser)


def _describe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help="name of the object")
    parser.add_argument("-N", "--name", default="", help="name of the object (default: all objects)")
    flags.add_namespace(parser)
    parser.add_argument("-o", "--format", default="yaml", help="yaml (the default) or json")


def _creator(kind: Kind) -> Run:
    async def create(arguments: argparse.Namespace, session: Session) -> int:
        """Creates every object of a file; continues after an error."""
        if not arguments.file:
            raise UsageError(f"say which file holds the {kind.plural}, with -f")

        async def one(key: Key, item: Manifest) -> None:
            await session.client.create(
                kind, {**item, "metadata": {**item["metadata"], "namespace": key.namespace}}
            )

        return await _each(kind, arguments.file, session.namespace, session, ("Created", "create"), one)

    return create


def _lister(kind: Kind) -> Run:
    async def list_all(arguments: argparse.Namespace, session: Session) -> int:
        return await show(_listing(kind, session), arguments, session)

    return list_all


def _getter(kind: Kind) -> Run:
    async def get(arguments: argparse.Namespace, session: Session) -> int:
        key = objects.target(
            arguments, session, f"name is mandatory to get the particular {kind.singular} details"
        )
        return await show_one(
            _listing(kind, session), await find(session.client, kind, key), arguments, session
        )

    return get


def _deleter(kind: Kind) -> Run:
    async def delete(arguments: argparse.Namespace, session: Session) -> int:
        """Deletes one object by name, or every object of a file; continues if one is missing."""
        if not arguments.file:
            key = objects.target(
                arguments, session, f"{kind.singular} name or file is mandatory: give NAME or -f"
            )
            await delete_object(session.client, kind, key)
            session.write(f"Deleted {kind.kind}: {key}")
            return 0

        async def one(key: Key, item: Manifest) -> None:
            await session.client.delete(kind, key, options=Options(propagation="Background"))

        home = objects.namespace(arguments, session)
        return await _each(kind, arguments.file, home, session, ("Deleted", "delete"), one)

    return delete


async def _each(
    kind: Kind,
    path: str,
    home: str,
    session: Session,
    words: tuple[str, str],
    act: Callable[[Key, Manifest], Awaitable[None]],
) -> int:
    """Applies an operation to every object of a file, with a default namespace; prints each result."""
    done, verb = words
    refused = 0
    for item in read_objects(path, kind):
        key = Key(item["metadata"].get("namespace") or home, item["metadata"]["name"])
        try:
            await act(key, item)
            session.write(f"{done} {kind.kind}: {key}")
        except ApiError as error:
            refused += 1
            session.warn(f"Failed to {verb} {kind.kind}: {error.message}")
    return FAILED if refused else 0


def _describer(kind: Kind) -> Run:
    async def describe(arguments: argparse.Namespace, session: Session) -> int:
        """Prints one object, or all objects of a namespace, as YAML or JSON."""
        if arguments.format not in FORMATS:
            raise UsageError(f"Unsupported format: {arguments.format}")
        name = arguments.position or arguments.name
        namespace = objects.namespace(arguments, session)
        if name:
            items = [await find(session.client, kind, Key(namespace, name))]
        else:
            items = (await session.client.list(kind, Query(namespace=namespace))).items
        if not items:
            session.write(NOTHING)
        for number, item in enumerate(items):
            if number:
                session.write()
            session.write(render(arguments.format, without_fields_of_managers(item)))
        return 0

    return describe


create_flow_arguments = create_template_arguments = _file_arguments
list_flow_arguments = list_template_arguments = _list_arguments
get_flow_arguments = get_template_arguments = _get_arguments
delete_flow_arguments = delete_template_arguments = _delete_arguments
describe_flow_arguments = describe_template_arguments = _describe_arguments
create_flow, create_template = _creator(JOB_FLOW), _creator(JOB_TEMPLATE)
list_flow, list_template = _lister(JOB_FLOW), _lister(JOB_TEMPLATE)
get_flow, get_template = _getter(JOB_FLOW), _getter(JOB_TEMPLATE)
delete_flow, delete_template = _deleter(JOB_FLOW), _deleter(JOB_TEMPLATE)
describe_flow, describe_template = _describer(JOB_FLOW), _describer(JOB_TEMPLATE)

"""`vcctl job outputs`: copies the files that pods wrote to $VOLCANO_OUTPUT."""

import argparse

from volcano.cli import flags
from volcano.cli.errors import UsageError
from volcano.cli.session import Session
from volcano.kube.api.manifest import Key
from volcano.services.submit.outputs import copy_outputs
from volcano.services.submit.pod_files import OUTPUT_VARIABLE
from volcano.services.submit.upload import format_size


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help="name of the job")
    parser.add_argument(
        "directory", nargs="?", default="", metavar="DIR", help="directory to copy to; made if missing"
    )
    flags.add_namespace(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    if not arguments.position or not arguments.directory:
        raise UsageError("name a job and a directory, such as: vcctl job outputs train results")
    key = Key(arguments.namespace or arguments.short_n or session.namespace, arguments.position)
    copied = await copy_outputs(session.client, session.clock, key, arguments.directory)
    for note in copied.notes:
        session.warn(note)
    files, size = copied.sizes, format_size(sum(copied.sizes))
    session.write(
        f"copied {len(files)} {'file' if len(files) == 1 else 'files'}, {size}, to {arguments.directory}"
        if files
        else f"job {key} has written no files to ${OUTPUT_VARIABLE}"
    )
    return 0

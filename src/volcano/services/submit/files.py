"""Decides which files the pods of a submission get, and notes what will not work as on this machine."""

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from volcano.kube.api.errors import ApiError
from volcano.kube.client.http import HttpClient
from volcano.services.connection import Connection
from volcano.services.errors import InvalidInput, Rejected
from volcano.services.submit import upload
from volcano.services.submit.node_facts import NodeFacts
from volcano.services.submit.pod_files import NO_FILES, WORKSPACE, PodFiles, may_mount_directories
from volcano.services.submit.working_directory import (
    find_environment,
    host_directories,
    named_files,
    reason_not_mounted,
)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """What was asked for about files."""

    stem: str  # begin of the names of objects
    command: Sequence[str]
    requests: Mapping[str, str]  # of one pod
    image: str = ""  # if the user named one
    working_directory: str = ""  # empty for the current one
    upload: bool = False
    output_claim: str = ""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The files of the pods, and notes for the user."""

    files: PodFiles
    notes: Sequence[str] = ()


async def plan_files(request: FileRequest, connection: Connection, nodes: NodeFacts) -> FilePlan:
    """Decides on the files of a submission. Raises InvalidInput for a directory that does not exist, and Rejected for
    one that cannot be mounted."""
    notes: list[str] = []
    return FilePlan(await _plan(request, connection, nodes, notes), notes)


async def _plan(request: FileRequest, connection: Connection, nodes: NodeFacts, notes: list[str]) -> PodFiles:
    directory = os.path.abspath(request.working_directory or os.getcwd())
    if not os.path.isdir(directory):
        raise InvalidInput(f"--workdir: {directory} is not a directory")
    if _runs_nothing(request, nodes, notes):
        return NO_FILES
    if request.image and nodes.uses_programs_of_host:
        notes.append(
            f"note: the image {request.image} is not used: nodes of the runtime {nodes.runtime} run programs of their "
            "host"
        )
    files = PodFiles(prefix=f"{request.stem}-{secrets.token_hex(3)}", has_output=True)
    if request.output_claim:
        files = replace(files, output_claim=request.output_claim)
    elif await _keeps_volumes(connection.client, nodes):
        files = replace(files, output_claim=f"{files.prefix}-output", create_output_claim=True)
    here = bool(nodes.here) and await may_mount_directories(connection.client)
    files = await _with_directory(request, connection, directory, files, here=here, nodes=nodes, notes=notes)
    if not (here and nodes.uses_programs_of_host):
        return files
    python = find_environment(directory, connection.environment)
    mounted = files.working_directory if not request.upload else ""
    return replace(
        files,
        directories=host_directories(mounted, python),
        variables=python.variables if python is not None else {},
    )


def _runs_nothing(request: FileRequest, nodes: NodeFacts, notes: list[str]) -> bool:
    """Whether no pod of the submission is executed, which the user is told."""
    if nodes.only_simulated:
        notes.append("note: all nodes are simulated: the command is not executed")
        return True
    if nodes.simulated and not nodes.others and not nodes.fits_locally(dict(request.requests)):
        wanted = ", ".join(f"{name} {amount}" for name, amount in request.requests.items())
        notes.append(
            f"note: no local node has room for a worker ({wanted}): on simulated nodes the command is not executed"
        )
        return True
    return False


async def _with_directory(
    request: FileRequest,
    connection: Connection,
    directory: str,
    files: PodFiles,
    *,
    here: bool,
    nodes: NodeFacts,
    notes: list[str],
) -> PodFiles:
    if request.upload:
        archive = upload.pack(Path(directory))
        size, content = upload.format_size(archive.size), upload.format_size(archive.content)
        notes.append(f"uploading {archive.files} files of {directory}: {content}, {size} compressed")
        return replace(files, archive=archive.parts, working_directory=WORKSPACE)
    problem = ""
    if not nodes.here:
        problem = "nodes of this cluster are not on this machine, or you may not list them"
    elif not here:
        problem = "only an administrator of the cluster may mount directories of its host"
    elif reason := reason_not_mounted(directory, connection.environment, connection.kubeconfigs):
        problem = reason
    if not problem:
        return replace(files, working_directory=directory)
    if request.working_directory:
        raise Rejected(f"--workdir: {directory} is not mounted: {problem}; --upload sends a copy instead")
    if names := named_files(request.command, directory):
        notes.append(
            f"note: {', '.join(names)} is not in the pods: {problem}; --upload sends a copy of the current directory"
        )
    return files


async def _keeps_volumes(client: HttpClient, nodes: NodeFacts) -> bool:
    """Whether claims get a volume without further configuration: on the nodes of `volcano up`."""
    if nodes.local or nodes.others:
        return bool(nodes.local)
    try:
        version = orjson.loads((await client.raw("GET", "/version")).body)
    except (ApiError, ValueError):
        return False
    return "+volcano." in str(version.get("gitVersion", ""))

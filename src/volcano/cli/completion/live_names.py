"""Names of existing objects for completion, from the API server or the kubeconfig."""

import argparse
from collections.abc import Iterable

from volcano.base.yaml_loader import FILES, load_yaml
from volcano.cli.completion.candidates import NameRequest
from volcano.cli.session import Session
from volcano.kube.api.fields import items
from volcano.kube.api.kinds import JOB, JOB_FLOW, JOB_TEMPLATE, NAMESPACE, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key
from volcano.kube.client.kubeconfig import kubeconfig_files
from volcano.kube.client.protocol import Query

KINDS = {
    "jobs": JOB,
    "queues": QUEUE,
    "podgroups": POD_GROUP,
    "jobflows": JOB_FLOW,
    "jobtemplates": JOB_TEMPLATE,
    "namespaces": NAMESPACE,
    "priorityclasses": PRIORITY_CLASS,
}
SECTIONS = ("contexts", "clusters", "users")
PARTS = {"tasks": (), "containers": ("containers", "initContainers")}
MOST = 500


async def names(request: NameRequest, arguments: argparse.Namespace) -> list[str]:
    """Returns the names a request asks for. May raise any exception; the caller then completes without names."""
    said = request.said
    typed = {name: said[name] for name in vars(arguments) if name in said}
    session = Session.of(argparse.Namespace(**{**vars(arguments), **typed}))
    if request.sort in SECTIONS:
        return list(_entries(session, said.get("kubeconfig", ""), request.sort))
    namespace = said.get("namespace") or (said.get("short_n") if said.get("position") else "")
    try:
        if request.sort in PARTS:
            return await _parts(
                session, Key(namespace or session.namespace, said.get("position", "")), request.sort
            )
        kind = KINDS[request.sort]
        query = Query(namespace or session.namespace if kind.namespaced else "", limit=MOST)
        listing = await session.client.list(kind, query)
        return [str(item["metadata"]["name"]) for item in listing.items]
    finally:
        await session.client.close()


async def _parts(session: Session, key: Key, sort: str) -> list[str]:
    """Tasks of a job, or containers of its pods."""
    job = await session.client.get(JOB, key)
    tasks = items(job, "spec", "tasks")
    if sort == "tasks":
        return [str(task["name"]) for task in tasks]
    found = (items(task, "template", "spec", part) for task in tasks for part in PARTS[sort])
    return [str(container["name"]) for containers in found for container in containers]


def _entries(session: Session, kubeconfig: str, section: str) -> Iterable[str]:
    for path in kubeconfig_files(session.environment, kubeconfig):
        document = load_yaml(path.read_bytes(), FILES).value if path.exists() else {}
        yield from (str(entry["name"]) for entry in document.get(section) or ())

"""`--watch`: the list first, then every object that changes."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded
from volcano.cli.program import parser_of
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.connection import Connection

WITHIN = 20.0


@asynccontextmanager
async def watching(kubeconfig: Path, *words: str) -> AsyncIterator[io.StringIO]:
    """What a command that stays has written so far."""
    arguments = parser_of("vcctl").parse_args([*words, "-w"])
    out = io.StringIO()
    session = Session(Connection(kubeconfig=str(kubeconfig)), stdout=out)
    task = asyncio.create_task(arguments.run(arguments, session))
    try:
        yield out
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await session.client.close()


async def lines_until(out: io.StringIO, part: str) -> list[str]:
    """The lines written once one of them holds a text."""
    async with asyncio.timeout(WITHIN):
        while not any(part in line for line in out.getvalue().splitlines()):
            await asyncio.sleep(0.02)
    return out.getvalue().splitlines()


def job(namespace: str, name: str) -> Manifest:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"tasks": [{"replicas": 1, "template": template}]},
    }


async def test_a_list_that_stays_prints_what_changes(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    async with watching(kubeconfig, "job", "list") as out:
        await lines_until(out, "Name")
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "late"))
        lines = await lines_until(out, "Running     ")
    assert lines[0].startswith("Name   Creation")
    assert [line for line in lines if line.startswith("Name")] == lines[:1]
    assert lines[-1].split()[0] == "late"
    assert len(set(lines)) == len(lines)


async def test_a_list_of_objects_that_stays_prints_objects(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    async with watching(kubeconfig, "job", "list", "-o", "name") as out:
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "one"))
        await lines_until(out, "job.batch.volcano.sh/one")
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "two"))
        lines = await lines_until(out, "job.batch.volcano.sh/two")
    assert lines == ["job.batch.volcano.sh/one", "job.batch.volcano.sh/two"]


async def test_what_is_deleted_is_told_once_more(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    async with watching(kubeconfig, "job", "list", "-o", "name") as out:
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "one"))
        await lines_until(out, "/one")
        await asyncio.to_thread(embedded.delete, JOB, Key(namespace, "one"))
        async with asyncio.timeout(WITHIN):
            while len(out.getvalue().splitlines()) < 2:
                await asyncio.sleep(0.02)
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "other"))
        lines = await lines_until(out, "/other")
    assert lines == ["job.batch.volcano.sh/one", "job.batch.volcano.sh/one", "job.batch.volcano.sh/other"]


async def test_deletions_that_a_filter_hides_are_not_told(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    async with watching(kubeconfig, "job", "list", "--selector", "seen", "-o", "name") as out:
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "hidden"))
        await asyncio.to_thread(embedded.delete, JOB, Key(namespace, "hidden"))
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "seen"))
        lines = await lines_until(out, "/seen")
    assert lines == ["job.batch.volcano.sh/seen"]


async def test_json_objects_follow_one_another(embedded: Embedded, kubeconfig: Path, namespace: str) -> None:
    async with watching(kubeconfig, "job", "list", "-o", "json") as out:
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "one"))
        await lines_until(out, '"phase": "Running"')
    found, _ = json.JSONDecoder().raw_decode(out.getvalue())
    assert (found["kind"], found["metadata"]["name"]) == ("Job", "one")


async def test_queues_change_with_the_gangs_in_them(
    embedded: Embedded, kubeconfig: Path, namespace: str
) -> None:
    name = f"watched-{namespace}"
    await asyncio.to_thread(embedded.create, QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1}})
    await asyncio.to_thread(
        embedded.until, QUEUE, Key("", name), lambda queue: "state" in queue.get("status", {})
    )
    async with watching(kubeconfig, "queue", "list") as out:
        await lines_until(out, name)
        waiting = job(namespace, "inside")
        waiting["spec"]["queue"] = name
        await asyncio.to_thread(embedded.create, JOB, waiting)
        async with asyncio.timeout(WITHIN):
            while True:
                rows = [line.split() for line in out.getvalue().splitlines() if line.startswith(name)]
                if rows[-1][6] == "1":
                    break
                await asyncio.sleep(0.02)
    assert rows[0][4:] == ["0", "0", "0", "0", "0"]


async def test_a_filter_holds_while_watching(embedded: Embedded, kubeconfig: Path, namespace: str) -> None:
    async with watching(kubeconfig, "job", "list", "--selector", "seen", "-o", "name") as out:
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "hidden"))
        await asyncio.to_thread(embedded.create, JOB, job(namespace, "seen"))
        lines = await lines_until(out, "/seen")
    assert lines == ["job.batch.volcano.sh/seen"]


@pytest.mark.parametrize("noun", ["job", "queue", "jobflow", "jobtemplate", "pod", "podgroup"])
def test_every_list_takes_the_same_flags(noun: str) -> None:
    words = f"{noun} list -w -l a=b --sort-by .metadata.name -o wide --no-headers -A"
    parsed = parser_of("vcctl").parse_args(words.split())
    assert (parsed.watch, parsed.label_selector, parsed.output) == (True, "a=b", "wide")

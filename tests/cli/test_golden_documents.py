"""Documents that `vcctl ... -o json` prints, compared with recorded ones: programs read them.

`UPDATE_SCREENS=1 pytest tests/cli/test_golden_documents.py` writes them again; look at the difference before you commit
it.
"""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.golden.worlds import ACCOUNTING, WORLDS
from tests.cli.test_screens import FixedSession, Output
from tests.cli.usage.database import NOW, AccountingClient, filled
from tests.cli.usage.test_usage import PRICES
from tests.cluster import SmallCluster
from volcano.base.clock import VirtualClock
from volcano.cli.program import parser_of

DOCUMENTS = Path(__file__).parent / "golden"
UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
VERSION = re.compile(r'("resourceVersion": )"\d+"')


async def printed(command: str, client: Any, clock: VirtualClock) -> str:
    """What a command prints as JSON, with its exit code and its notes; uids and versions of objects are numbered."""
    session = FixedSession(client, clock, None)
    session.stderr = Output(terminal=False)
    arguments = parser_of("vcctl").parse_args([*shlex.split(command), "-o", "json"])
    code = await arguments.run(arguments, session)
    found = {
        "command": f"vcctl {command} -o json",
        "code": code,
        "stderr": session.stderr.getvalue().splitlines(),
        "document": json.loads(session.output.getvalue()),
    }
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    uids: dict[str, str] = {}
    numbered = UID.sub(lambda each: uids.setdefault(each[0], f"<uid {len(uids) + 1}>"), text)
    return VERSION.sub(r'\1"<version>"', numbered)


def compare(documents: dict[str, str]) -> None:
    """Compares documents with the recorded ones: values, and the order of fields."""
    for name, text in documents.items():
        path = DOCUMENTS / f"{name}.json"
        if os.environ.get("UPDATE_SCREENS"):
            path.write_text(text)
        recorded = path.read_text()
        assert json.loads(text) == json.loads(recorded), name
        assert text == recorded, name


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which commands read files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WORLDS)
async def test_documents_are_as_recorded(name: str, directory: Path) -> None:
    world = WORLDS[name]
    for file, manifest in world.files.items():
        (directory / file).write_text(yaml.safe_dump(manifest))
    async with SmallCluster() as cluster:
        await world.fill(cluster)
        cluster.clock.advance(120)
        client = world.client(cluster.client, world.history())
        compare(
            {
                document: await printed(command, client, cluster.clock)
                for document, command in world.commands.items()
            }
        )


async def test_documents_of_accounting_are_as_recorded(directory: Path) -> None:
    (directory / "prices.yaml").write_text(PRICES)
    database = filled(directory / "runs.db")
    try:
        client, clock = AccountingClient(database), VirtualClock(NOW)
        compare({document: await printed(command, client, clock) for document, command in ACCOUNTING.items()})
    finally:
        database.close()


def test_every_recorded_document_is_compared() -> None:
    compared = [*ACCOUNTING, *(document for world in WORLDS.values() for document in world.commands)]
    assert sorted(compared) == sorted(path.stem for path in DOCUMENTS.glob("*.json"))

"""CEL expressions for comparing our evaluation with a real API server, and the recorded responses of that server.

`python -m tests.kube.cel.conformance` starts a real server and records its responses.
"""

import json
import math
import re
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.apiserver.conformance import RealServer
from tests.k8s.control_plane import cluster
from volcano.apiserver.schema.crd_schema import CompiledSchema
from volcano.apiserver.schema.validation.crds import crd as crd_causes
from volcano.apiserver.schema.validation_rules import rule_variables
from volcano.kube.api.manifest import Manifest
from volcano.kube.cel.declarations import declare
from volcano.kube.cel.program import InvalidExpression, Program

FOLDER = Path(__file__).parent
RECORD = FOLDER / "answers.json"
GROUP = "cel.example.com"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BATCH = 60
# A type name that a real server invents for every compilation.
_INVENTED = re.compile(r"selfType\d+|\bobject(?=\.)")


class Answer(NamedTuple):
    """Responses for one expression as a validation rule: to the CRD (empty: accepted), and to an object (empty:
    valid), and the estimated cost of many objects."""

    crd: str
    value: str
    cost: str


@cache
def table() -> Manifest:
    found: Manifest = yaml.safe_load((FOLDER / "expressions.yaml").read_text())
    return found


def expressions() -> list[str]:
    return list(table()["expressions"])


def definition(schema: Manifest, rules: list[Manifest], name: str = "cases", *, most: int = 0) -> Manifest:
    """A CRD with rules on `spec`, or on the items of a list of at most `most`."""
    spec = {**schema, "x-kubernetes-validations": rules}
    if most:
        spec = {"type": "array", "maxItems": most, "items": spec}
    names = {
        "plural": name,
        "singular": name,
        "kind": name.capitalize(),
        "listKind": f"{name.capitalize()}List",
    }
    root = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
    }


def shortened(messages: list[str]) -> str:
    """The first message without the dump of the rule and without invented names."""
    text = re.sub(r"^Invalid value: \{.*?\}: ", "", messages[0], flags=re.DOTALL) if messages else ""
    return _INVENTED.sub("object", text)


def copies(expression: str) -> int:
    """A number of objects for which the estimated cost exceeds the limit slightly, so that the message shows it."""
    try:
        program = Program(expression, rule_variables({}, declare(table()["schema"]) or _missing()))
    except InvalidExpression:
        return 0
    return math.ceil(1.2e7 / max(program.cost.most, 1)) if program.cost.most < 1.4e7 else 0


def _missing() -> Any:
    raise AssertionError("the schema of the table has no declaration")


@cache
def our_answers() -> dict[str, Answer]:
    schema, subject = table()["schema"], table()["object"]
    accepted: dict[str, str] = {}
    for expression in expressions():
        causes = list(crd_causes(definition(schema, [{"rule": expression}])))
        accepted[expression] = shortened([cause.message for cause in causes])
    answers = {}
    for expression, response in accepted.items():
        value, cost = "", ""
        if not response:
            rules = [{"rule": expression, "message": "false"}]
            root = {"type": "object", "properties": {"spec": {**schema, "x-kubernetes-validations": rules}}}
            value = shortened([cause.message for cause in CompiledSchema(root).causes({"spec": subject})])
            if most := copies(expression):
                causes = list(crd_causes(definition(schema, [{"rule": expression}], most=most)))
                cost = shortened([cause.message for cause in causes])
        answers[expression] = Answer(response, value, cost)
    return answers


def real_answers(server: RealServer) -> dict[str, Answer]:
    schema = table()["schema"]
    responses = {each: _response(server, definition(schema, [{"rule": each}])) for each in expressions()}
    accepted = [each for each, response in responses.items() if not response]
    values: dict[str, str] = {}
    for start in range(0, len(accepted), _BATCH):
        values |= _values(server, f"cases{start}", accepted[start : start + _BATCH])
    answers = {}
    for expression, response in responses.items():
        most = 0 if response else copies(expression)
        cost = _response(server, definition(schema, [{"rule": expression}], most=most)) if most else ""
        answers[expression] = Answer(response, values.get(expression, ""), cost)
    return answers


def _response(server: RealServer, crd: Manifest) -> str:
    status = server.call("POST", f"{_CRDS}?dryRun=All", crd)
    return shortened([cause["message"] for cause in (status.get("details") or {}).get("causes") or ()])


def _values(server: RealServer, name: str, batch: list[str]) -> dict[str, str]:
    """Values of expressions, as the rules of one CRD whose messages are numbers."""
    rules = [{"rule": each, "message": f"#{index}#"} for index, each in enumerate(batch)]
    crd = definition(table()["schema"], rules, name)
    server.call("POST", _CRDS, crd)
    path = f"/apis/{GROUP}/v1/namespaces/default/{name}"
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": name.capitalize(),
        "metadata": {"name": "a"},
        "spec": table()["object"],
    }
    deadline = time.monotonic() + 20
    while (status := server.call("POST", f"{path}?dryRun=All", body)).get(
        "code"
    ) == 404 or "code" not in status:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} is not served: {status}")
        time.sleep(0.1)
    server.call("DELETE", f"{_CRDS}/{crd['metadata']['name']}")
    found = {}
    for cause in status["details"]["causes"]:
        number = re.search(r"#(\d+)#", cause["message"])
        assert number is not None, cause
        found[batch[int(number[1])]] = shortened([cause["message"].replace(number[0], "false")])
    return found


def differences(record: dict[str, Answer], ours: dict[str, Answer]) -> list[str]:
    """Expressions with another response, but for those that the table lists."""
    known = table()["differences"]
    return [
        f"{expression}\n  recorded {record[expression]}\n  ours     {ours[expression]}"
        for expression in ours
        if expression not in known and record[expression] != ours[expression]
    ]


def recorded() -> dict[str, Answer]:
    return {name: Answer(*answer) for name, answer in json.loads(RECORD.read_text()).items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        running = cluster.start(Path(directory))
        try:
            answers = real_answers(RealServer(running.url, running.token))
        finally:
            running.stop()
    RECORD.write_text(json.dumps(answers, indent=0, ensure_ascii=False) + "\n")

"""Manifests for comparing our strategies with a real API server, and the recorded responses of that server.

`python -m tests.apiserver.conformance` starts a real server and records its responses.
"""

import copy
import json
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.k8s.control_plane import cluster
from volcano.apiserver.registry.strategies import strategy_for
from volcano.base.clock import Instant
from volcano.kube.api import crds
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import BUILT_IN, JOB, QUEUE, Kind, by_gvk
from volcano.kube.api.manifest import Manifest

FOLDER = Path(__file__).parent
VALIDATION_ERRORS = FOLDER / "validation_errors.json"
DEFAULTED = FOLDER / "defaulted_manifests.json"
BOOKMARKS = FOLDER / "bookmarks.json"
NOW = Instant(1_800_000_000.0, 0.0)
UID = "11111111-2222-3333-4444-555555555555"
_KINDS = by_gvk(BUILT_IN)
_UNSTABLE = ("uid", "creationTimestamp", "managedFields", "resourceVersion")


class Case(NamedTuple):
    """An invalid manifest, or an invalid change of `old`."""

    name: str
    new: Manifest
    old: Manifest | None = None


def kind_of(manifest: Manifest) -> Kind:
    return _KINDS[manifest["apiVersion"], manifest["kind"]]


def merged(base: Any, change: Any) -> Any:
    """Applies a merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def invalid_creates() -> Iterator[Case]:
    table = yaml.safe_load((FOLDER / "invalid_manifests.yaml").read_text())
    for case in table["cases"]:
        yield Case(_title(case), copy.deepcopy(merged(table["bases"][case["base"]], case["change"])))


def invalid_updates() -> Iterator[Case]:
    table = yaml.safe_load((FOLDER / "invalid_manifests.yaml").read_text())
    for case in table["updates"]:
        old = copy.deepcopy(merged(table["bases"][case["base"]], case.get("stored") or {}))
        yield Case(f"update of {_title(case)}", case["change"], old)


def _title(case: Manifest) -> str:
    return f"{case['base']}: {json.dumps(case['change'])[1:-1]}"


def minimal_manifests() -> list[Manifest]:
    return list(yaml.safe_load_all((FOLDER / "minimal_manifests.yaml").read_text()))


def prepared(manifest: Manifest, uid: str = UID) -> Manifest:
    """Prepares a new object as our server does, up to validation."""
    strategy, manifest = strategy_for(kind_of(manifest)), copy.deepcopy(manifest)
    if strategy.kind.namespaced:
        manifest["metadata"].setdefault("namespace", "default")
    strategy.prune(manifest)
    manifest["metadata"]["uid"] = uid
    strategy.default(manifest)
    strategy.prepare_for_create(manifest, NOW)
    return manifest


def our_causes(case: Case) -> list[Cause]:
    """Causes that our strategies report for a case."""
    if case.old is None:
        new = prepared(case.new)
        return strategy_for(kind_of(new)).validate(new, None, "")
    old = prepared(case.old)
    strategy, new = strategy_for(kind_of(old)), copy.deepcopy(merged(old, case.new))
    strategy.prune(new)
    strategy.default(new)
    strategy.prepare_for_update(new, old, "", NOW)
    return strategy.validate(new, old, "")


class RealServer:
    """Minimal client of a real server."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._context = ssl._create_unverified_context()

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Manifest:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, context=self._context) as response:
                found: Manifest = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            found = json.loads(text) if text.startswith("{") else {"kind": "Status", "code": error.code}
        return found

    def create(self, manifest: Manifest, *, dry_run: bool = True) -> Manifest:
        return self.call("POST", _path(manifest) + ("?dryRun=All" if dry_run else ""), manifest)

    def causes(self, case: Case) -> list[Cause]:
        """Causes that the real server reports for a case."""
        if case.old is None:
            return causes_of(self.create(case.new))
        path = f"{_path(case.old)}/{case.old['metadata']['name']}"
        stored = self.create(case.old, dry_run=False)
        try:
            return causes_of(self.call("PUT", f"{path}?dryRun=All", merged(stored, case.new)))
        finally:
            self.call("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
            if stored.get("metadata", {}).get("finalizers"):
                patch = [{"op": "remove", "path": "/metadata/finalizers"}]
                self.call("PATCH", path, patch, "application/json-patch+json")

    def bookmark(self, kind: Kind) -> Manifest:
        """The bookmark after the initial events of a watch, without its version."""
        base = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
        options = (
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        )
        request = urllib.request.Request(
            f"{self._url}{base}/{kind.plural}?{options}&timeoutSeconds=5",
            headers={"Authorization": f"Bearer {self._token}"},
        )
        for _ in range(30):
            try:
                with urllib.request.urlopen(request, context=self._context) as response:
                    for line in response:
                        event = json.loads(line)
                        if event["type"] == "BOOKMARK":
                            found: Manifest = event["object"]
                            found["metadata"].pop("resourceVersion")
                            return found
            except urllib.error.HTTPError as error:  # the cache of a new kind is being filled
                error.close()
            time.sleep(1)
        raise AssertionError(f"no bookmark of {kind.plural}")


def causes_of(status: Manifest) -> list[Cause]:
    details = status.get("details") or {}
    return [
        Cause(each["reason"], each["message"], each.get("field", "")) for each in details.get("causes") or ()
    ]


def _path(manifest: Manifest) -> str:
    kind = kind_of(manifest)
    base = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    namespace = manifest["metadata"].get("namespace", "default")
    return f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def stable(manifest: Manifest) -> Manifest:
    """An object without the fields that differ between servers."""
    text = json.dumps(manifest)
    uid = (manifest.get("metadata") or {}).get("uid")
    result: Manifest = json.loads(text.replace(uid, UID) if uid else text)
    for name in _UNSTABLE:
        result.get("metadata", {}).pop(name, None)
    return result


def record(server: RealServer) -> None:
    """Records the responses of a real server. Messages only where ours are equal: the others show Go internals."""
    errors = {}
    for case in [*invalid_creates(), *invalid_updates()]:
        ours = {(cause.field, cause.reason, cause.message) for cause in our_causes(case)}
        errors[case.name] = [
            [cause.field, cause.reason, cause.message if tuple(cause[i] for i in (2, 0, 1)) in ours else None]
            for cause in server.causes(case)
        ]
    VALIDATION_ERRORS.write_text(json.dumps(errors, indent=0, ensure_ascii=False) + "\n")
    stored = [stable(server.create(manifest)) for manifest in minimal_manifests()]
    DEFAULTED.write_text(json.dumps(stored, indent=0, ensure_ascii=False) + "\n")
    for crd in crds.load():
        server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    bookmarks = {f"{kind.api_version} {kind.kind}": server.bookmark(kind) for kind in (*BUILT_IN, JOB, QUEUE)}
    BOOKMARKS.write_text(json.dumps(bookmarks, indent=0) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        running = cluster.start(Path(directory))
        try:
            record(RealServer(running.url, running.token))
        finally:
            running.stop()

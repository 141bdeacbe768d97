"""Plain HTTP requests to the API server and a history of pods, independent of the project's own client."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.k8s.control_plane.cluster import RealCluster

Object = dict[str, Any]
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
PODS = "/api/v1/namespaces/{}/pods"
MERGE = "application/merge-patch+json"


class StatusError(Exception):
    """A response with an error status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """Requests to the API server, each on its own connection."""

    def __init__(self, cluster: RealCluster) -> None:
        self._host = cluster.url.removeprefix("https://")
        self._token = cluster.token

    def connection(self, timeout: float = 15.0) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(self._host, timeout=timeout, context=context)

    def headers(self, content: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Content-Type": content}

    def call(self, method: str, path: str, body: Object | None = None, content: str = "") -> Object:
        connection = self.connection()
        try:
            data = json.dumps(body) if body is not None else None
            connection.request(method, path, data, self.headers(content or "application/json"))
            reply = connection.getresponse()
            answer: Object = json.loads(reply.read() or b"{}")
        finally:
            connection.close()
        if reply.status >= 300:
            raise StatusError(reply.status, str(answer.get("message")))
        return answer

    def get(self, path: str) -> Object:
        return self.call("GET", path)

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.call("GET", path)["items"]
        return found

    def create(self, path: str, manifest: Object) -> Object:
        return self.call("POST", path, manifest)

    def patch(self, path: str, patch: Object) -> Object:
        return self.call("PATCH", path, patch, MERGE)

    def delete(self, path: str) -> Object:
        return self.call("DELETE", path)

    def create_persistently(self, path: str, manifest: Object, within: float = 60.0) -> None:
        """Creates an object, with retries while the server is down; 409 means that a lost response had created it."""
        deadline = time.monotonic() + within
        while True:
            try:
                self.create(path, manifest)
                return
            except StatusError as error:
                if error.code == 409:
                    return
                if (error.code < 500 and error.code != 429) or time.monotonic() > deadline:
                    raise
            except (OSError, http.client.HTTPException, ValueError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)


def until(true: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Polls a condition, also while the server is down; fails with `otherwise()` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
        except (StatusError, OSError, http.client.HTTPException, ValueError, KeyError):
            pass  # the server is down, or the object is incomplete yet
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.1)


class History:
    """Every version of every pod in watch order, recorded by a thread.

    After 410 Gone (a restarted server) the pods are listed again, and missing pods count as deleted.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stop = threading.Event()
        self._version = ""
        self._known: dict[str, Object] = {}
        self.events: list[tuple[str, Object]] = []
        self._list()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _list(self) -> None:
        listed = self._api.get("/api/v1/pods")
        present = {pod["metadata"]["uid"] for pod in listed["items"]}
        for pod in [pod for uid, pod in self._known.items() if uid not in present]:
            self._record("DELETED", pod)
        for pod in listed["items"]:
            self._record("MODIFIED", pod)
        self._version = listed["metadata"]["resourceVersion"]

    def _record(self, kind: str, pod: Object) -> None:
        self.events.append((kind, pod))
        if kind == "DELETED":
            self._known.pop(pod["metadata"]["uid"], None)
        else:
            self._known[pod["metadata"]["uid"]] = pod

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except (StatusError, OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)

    def _watch(self) -> None:
        connection = self._api.connection(timeout=30.0)
        try:
            query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
            connection.request("GET", f"/api/v1/pods?{query}", headers=self._api.headers())
            reply = connection.getresponse()
            while not self._stop.is_set() and (line := reply.readline()):
                event = json.loads(line)
                if reply.status != 200 or event["type"] == "ERROR":
                    self._version = ""
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._record(event["type"], event["object"])
        finally:
            connection.close()

    def caught_up(self, seconds: float = 30.0) -> list[tuple[str, Object]]:
        """All events so far, including those of writes that finished before this call."""
        version = int(self._api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"])
        marker = self._api.create(
            PODS.format("default"),
            {
                "metadata": {"generateName": "marker-", "labels": {"marker": "yes"}},
                "spec": {"schedulerName": "no-scheduler", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        name = marker["metadata"]["name"]
        self._api.delete(f"{PODS.format('default')}/{name}")
        until(lambda: int(self._version) > version, seconds, lambda: "the history does not catch up")
        return list(self.events)

    def stop(self) -> None:
        self._stop.set()

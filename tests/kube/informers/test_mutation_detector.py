"""Modified objects of shared caches are found and named."""

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import VirtualClock
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.informers.indexer import Indexer
from volcano.kube.informers.mutation_detector import (
    VARIABLE,
    CacheMutationError,
    MutationDetector,
    first_difference,
    process_detector,
)
from volcano.kube.informers.shared_informers import SharedDecodeCache, SharedInformerFactory


def pod(name: str = "p") -> Manifest:
    containers = [{"name": "c", "image": "busybox"}]
    return {
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": containers},
    }


def test_a_modified_object_is_named_with_the_path_of_the_change() -> None:
    detector, cached = MutationDetector(), pod()
    detector.add(cached)
    detector.check()
    cached["spec"]["containers"][0]["image"] = "other"
    with pytest.raises(CacheMutationError) as caught:
        detector.check()
    assert str(caught.value).startswith(
        "cached Pod default/p was modified at .spec.containers[0].image ('busybox' became 'other')"
    )


def test_an_error_that_was_swallowed_is_raised_again_until_cleared() -> None:
    detector, cached = MutationDetector(), pod()
    detector.add(cached)
    cached["metadata"]["labels"] = {}
    with pytest.raises(CacheMutationError):
        detector.check()
    del cached["metadata"]["labels"]
    with pytest.raises(CacheMutationError, match=r"\.metadata\.labels \(added\)"):
        detector.check()
    detector.clear()
    detector.check()


def test_objects_are_checked_when_they_leave_the_window() -> None:
    detector, cached = MutationDetector(window=1), pod("first")
    detector.add(cached)
    cached.pop("spec")
    with pytest.raises(CacheMutationError, match=r"default/first was modified at \.spec \(removed\)"):
        detector.add(pod("second"))


def test_a_modification_to_something_that_is_not_json_is_found() -> None:
    detector, cached = MutationDetector(), pod()
    detector.add(cached)
    cached["spec"]["containers"] = {1, 2}
    with pytest.raises(CacheMutationError, match=r"\.spec\.containers"):
        detector.check()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, "", id="equal"),
        pytest.param({"a": 1}, {"a": True}, ".a (1 became True)", id="true is not one"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, ".a (1 elements became 2)", id="longer list"),
        pytest.param({"a": {"b": 1}}, {"a": None}, ".a ({'b': 1} became None)", id="another type"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{}]}, ".a[0].b (removed)", id="nested"),
    ],
)
def test_the_first_difference_is_described(before: Any, after: Any, expected: str) -> None:
    assert first_difference(before, after) == expected


def test_objects_of_an_indexer_are_watched() -> None:
    detector = MutationDetector()
    indexer = Indexer(detector)
    indexer.apply(Event(EventType.ADDED, POD, pod()))
    for cached in indexer.all(POD):
        cached["spec"]["nodeName"] = "n1"
    with pytest.raises(CacheMutationError, match=r"\.spec\.nodeName \(added\)"):
        detector.check()


def test_objects_of_the_decode_cache_are_watched() -> None:
    detector = MutationDetector()
    decode = SharedDecodeCache(detector=detector)
    decode(orjson.dumps(pod()))["metadata"]["name"] = "other"
    with pytest.raises(CacheMutationError, match="cached Pod default/p was modified"):
        detector.check()


async def test_an_informer_that_stops_reports_what_its_handlers_modified() -> None:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    await client.create(CONFIG_MAP, config_map("settings"))
    informers = SharedInformerFactory(client, VirtualClock(), detector=MutationDetector())
    with (
        pytest.raises(CacheMutationError, match=r"ConfigMap default/settings was modified at \.data\.key"),
        informers.add_event_handler(
            Watch(CONFIG_MAP), lambda event: event.object.setdefault("data", {}).update(key="changed")
        ) as reflector,
    ):
        await asyncio.wait_for(reflector.synced.wait(), 10)


def test_the_tests_run_with_the_detector() -> None:
    assert process_detector() is not None


@pytest.mark.parametrize(("value", "expected"), [("", "None"), ("true", "MutationDetector")])
def test_the_environment_enables_the_detector(value: str, expected: str) -> None:
    module = "volcano.kube.informers.mutation_detector"
    program = f"from {module} import process_detector; print(type(process_detector()).__name__)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip().removesuffix("Type") == expected


def test_objects_may_be_added_while_others_are_checked() -> None:
    detector = MutationDetector()
    stop = threading.Event()

    def add() -> None:
        while not stop.is_set():
            detector.add({"metadata": {"name": "a"}})

    adding = threading.Thread(target=add)
    adding.start()
    try:
        for _ in range(200):
            detector.check()
    finally:
        stop.set()
        adding.join()

"""Logs stay when a node is stopped, until their pods are deleted; bounded in bytes, the newest first."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.kubelet.pods.bench import bench
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import uid_of
from volcano.nodes.kubelet.pods.log_retention import keep_only_logs


async def test_the_log_of_a_finished_pod_is_found_after_the_node_was_stopped_until_the_pod_is_deleted() -> (
    None
):
    async with bench() as it:
        pod = await it.create("p", restartPolicy="Never")
        log = it.options.log_path(uid_of(pod), "c", 0)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("result\n")
        await it.end("c", 0)
        await it.pass_time(1)
        await it.stop()
        await it.kubelet.close(keep=False)
        it.runtime.forget()
        assert [path.name for path in it.options.pod_directory(uid_of(pod)).iterdir()] == ["containers"]
        await it.begin()
        located = it.kubelet.locate_pod(await it.pod())
        assert located is not None
        assert located.log_path("c") == log
        assert log.read_text() == "result\n"
        await it.cluster.delete(POD, "p", grace=0)
        await it.pass_time(1)
        assert not log.exists()


async def test_the_log_of_a_pod_that_was_deleted_while_its_node_was_stopped_is_removed() -> None:
    async with bench() as it:
        pod = await it.create("p", restartPolicy="Never")
        log = it.options.log_path(uid_of(pod), "c", 0)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("result\n")
        await it.end("c", 0)
        await it.stop()
        await it.kubelet.close(keep=False)
        it.runtime.forget()
        await it.cluster.delete(POD, "p", grace=0)
        await it.begin()
        await it.pass_time(1)
        assert not log.exists()


@given(sizes=st.lists(st.integers(0, 50), max_size=8), most=st.integers(0, 200))
def test_the_newest_logs_are_kept_within_the_limit(
    tmp_path_factory: "object", sizes: list[int], most: int
) -> None:
    pods: Path = tmp_path_factory.mktemp("pods")  # type: ignore[attr-defined]
    written = []
    for number, size in enumerate(sizes):
        log = pods / f"pod-{number % 3}" / "containers" / "c" / f"{number}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"x" * size)
        (log.parents[2] / "volumes").mkdir(exist_ok=True)
        os.utime(log, (number, number))
        written.append(log)
    assert keep_only_logs(pods, most) == bool(sizes)
    kept = [log for log in written if log.exists()]
    assert kept == written[len(written) - len(kept) :]
    assert sum(log.stat().st_size for log in kept) <= most
    if len(kept) < len(written):
        assert sum(log.stat().st_size for log in kept) + sizes[len(written) - len(kept) - 1] > most
    assert {path.parents[2] for path in kept} == set(pods.glob("*"))
    assert not list(pods.glob("*/volumes"))
    assert pods.exists() == bool(kept)

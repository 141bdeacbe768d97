"""Lifecycle of a container on a fake engine. Further tests are in `test_engine_hardship.py`."""

import os

from tests.nodes.runtimes.rig import POD, Fake, Rig


async def test_a_container_runs_is_logged_its_exit_is_reported_and_nothing_is_left(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    spec = rig.container(
        "sh", "-c", "echo $WORD; echo bad >&2; sleep 0.7; exit 7", environment={"WORD": "good"}
    )
    begun = await rig.start(spec)
    end = await rig.end_of()
    assert begun.running
    assert begun.pid
    assert (end.exit_code, end.reason, end.started) == (7, "Error", begun.started)
    assert end.finished >= end.started
    assert sorted(rig.log()) == [("stderr", "bad"), ("stdout", "good")]
    assert await rig.runtime.start(spec) == end, "a start that has been is not made again"
    left = await rig.start(rig.container("sleep", "60", name="other"))
    await rig.runtime.close(keep=False)
    assert not fake.containers
    assert not fake.networks
    assert not os.path.exists(f"/proc/{left.pid}")
    assert "volcano-pause:1" not in (fake.state / "images.json").read_text()


async def test_the_engine_knows_what_containers_have_written(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    for name in ("main", "other"):
        await rig.start(rig.container("sleep", "60", name=name))
    written = await rig.runtime.writable_layers(POD)
    assert written.keys() == {"main", "other"}
    assert all(size > 0 for size in written.values())
    assert await rig.runtime.writable_layers("another") == {}
    await rig.runtime.close(keep=False)

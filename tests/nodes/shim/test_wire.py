"""Frames and descriptors arrive complete and in order, however the socket splits them."""

import os
import socket
from collections.abc import Iterator

import pytest

from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import ContainerSpec, Failure, Identity, Mount, SandboxSpec, Security

Ends = tuple[wire.Channel, wire.Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    here, there = (wire.Channel(end) for end in socket.socketpair())
    yield here, there
    here.close()
    there.close()


def exchange(
    sender: wire.Channel, receiver: wire.Channel, count: int
) -> list[tuple[wire.Message, list[int]]]:
    found: list[tuple[wire.Message, list[int]]] = []
    while len(found) < count:
        sender.flush()
        found += receiver.receive()
    return found


def pipe_with(text: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    return reading


def test_large_and_small_frames_arrive_in_order(ends: Ends) -> None:
    messages: list[wire.Message] = [
        {"id": number, "text": "x" * size} for number, size in enumerate((1, 1_500_000, 0))
    ]
    for message in messages:
        ends[0].send(message)
    assert [message for message, _ in exchange(*ends, 3)] == messages
    assert not ends[0].unsent


def test_descriptors_come_with_their_own_frame(ends: Ends) -> None:
    ends[0].send({"id": 1})
    ends[0].send({"id": 2}, [pipe_with(b"two"), pipe_with(b"too")])
    ends[0].send({"id": 3, "text": "y" * 500_000}, [pipe_with(b"three")])
    ends[0].send({"id": 4})
    heard: list[tuple[int, list[bytes]]] = []
    for message, descriptors in exchange(*ends, 4):
        heard.append((message["id"], [os.read(descriptor, 10) for descriptor in descriptors]))
        assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
    assert heard == [(1, []), (2, [b"two", b"too"]), (3, [b"three"]), (4, [])]


def test_descriptors_that_were_sent_are_closed_here(ends: Ends) -> None:
    before = len(os.listdir("/proc/self/fd"))
    ends[0].send({"id": 1}, [pipe_with(b"")])
    ends[0].flush()
    assert len(os.listdir("/proc/self/fd")) == before
    ends[0].send({"id": 2}, [pipe_with(b"")])
    ends[0].close()
    ((_, (received,)),) = ends[1].receive()
    os.close(received)
    ends[1].close()
    assert len(os.listdir("/proc/self/fd")) == before - 2


def test_the_end_of_a_connection_is_an_end(ends: Ends) -> None:
    ends[0].close()
    with pytest.raises(EOFError, match="closed"):
        ends[1].receive()


def test_a_frame_beyond_all_bounds_ends_the_connection(ends: Ends) -> None:
    os.write(ends[0].fileno(), b"\xff\xff\xff\xff")
    with pytest.raises(EOFError, match="over the limit"):
        ends[1].receive()


def test_specs_survive_the_way() -> None:
    container = ContainerSpec(
        "pod",
        "main",
        2,
        "image",
        ("sh", "-c", "true"),
        environment={"A": "\udcff"},
        mounts=(Mount("/a", "/b", read_only=True, memory=True, size=3),),
        identity=Identity(1, 2, (3, 4)),
        security=Security(add_capabilities=("ALL",)),
        tty=True,
    )
    assert wire.container_spec(wire.to_json(container)) == container
    sandbox = SandboxSpec(
        "pod", "default", "p", "local-0", "/pods/pod", "p", memory_limit=5, names=("p.default",)
    )
    assert wire.sandbox_spec(wire.to_json(sandbox)) == sandbox


def test_failures_survive_the_way() -> None:
    failure = wire.failure_from_json(
        wire.failure_to_json(Failure("StartError", "no such thing", exit_code=127))
    )
    assert (failure.reason, failure.message, failure.exit_code) == ("StartError", "no such thing", 127)

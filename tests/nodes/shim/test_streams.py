"""Into and out of plain containers: exec, terminals, attach, standard input."""

import asyncio
import os
import socket

import pytest

from tests.nodes.shim.rig import Rig, read_all, read_until, until
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import Failure


async def test_exec_gives_streams_and_an_exit_code(rig: Rig) -> None:
    await rig.start("sleep", "60", environment={"GREETING": "hello"})
    script = "echo $GREETING $NAME; cat; echo bad >&2; exit 4"
    process = await rig.runtime.execute(
        rig.pod, "main", ["sh", "-c", script], stdin=True, environment={"NAME": "world"}
    )
    assert process.stdin is not None
    os.write(process.stdin, b"fed\n")
    os.close(process.stdin)
    process.stdin = None
    assert await read_all(process.stdout) == b"hello world\nfed\n"
    assert await read_all(process.stderr) == b"bad\n"
    assert await process.wait() == 4
    process.close()


async def test_exec_gives_only_the_streams_asked_for(rig: Rig) -> None:
    await rig.start("sleep", "60")
    process = await rig.runtime.execute(rig.pod, "main", ["sh", "-c", "cat; echo unheard >&2"], stderr=False)
    assert (process.stdin, process.stderr) == (None, None)
    assert await read_all(process.stdout) == b""
    assert await process.wait() == 0
    process.close()


async def test_exec_of_a_missing_program_is_a_start_error(rig: Rig) -> None:
    await rig.start("sleep", "60")
    with pytest.raises(Failure, match="executable file not found"):
        await rig.runtime.execute(rig.pod, "main", ["no-such-program"])


async def test_exec_in_an_exited_container_is_rejected(rig: Rig) -> None:
    await rig.shell("true")
    with pytest.raises(Failure, match="not running"):
        await rig.runtime.execute(rig.pod, "main", ["true"])


async def test_letting_go_of_an_exec_kills_it(rig: Rig) -> None:
    await rig.start("sleep", "60")
    process = await rig.runtime.execute(
        rig.pod, "main", ["sh", "-c", "trap '' HUP TERM; sleep 61 & sleep 62"]
    )
    await until(lambda: len(rig.processes()) >= 4)
    process.close()
    assert await process.wait() == 137
    assert len(rig.processes()) == 1


async def test_execs_end_with_their_container(rig: Rig) -> None:
    await rig.start("sleep", "60")
    process = await rig.runtime.execute(rig.pod, "main", ["sleep", "61"])
    await rig.runtime.signal(rig.pod, "main", 9)
    assert await process.wait() == 137
    assert rig.processes() == []
    process.close()


async def test_execs_end_with_the_connection(rig: Rig) -> None:
    await rig.start("sleep", "60")
    await rig.runtime.execute(rig.pod, "main", ["sleep", "61"])
    await rig.runtime.close(keep=True)
    await until(lambda: len(rig.processes()) == 1)
    await rig.open()


async def test_a_terminal_is_one_descriptor_and_can_be_resized(rig: Rig) -> None:
    await rig.start("sleep", "60")
    process = await rig.runtime.execute(rig.pod, "main", ["sh", "-i"], stdin=True, tty=True)
    assert process.stdin is not None
    assert (process.stdout, process.stderr) == (process.stdin, None)
    process.resize(40, 120)
    os.write(process.stdin, b"stty size; tty; ps -o tty= -p $$\n")
    assert b"40 120\r\n/dev/pts/" in await read_until(process.stdout, b"\r\npts/")
    os.write(process.stdin, b"exit 9\n")
    assert await process.wait() == 9
    process.close()


async def test_hanging_up_a_terminal_ends_its_shell(rig: Rig) -> None:
    await rig.start("sleep", "60")
    process = await rig.runtime.execute(rig.pod, "main", ["sh", "-i"], stdin=True, tty=True)
    process.close()
    assert await process.wait() in (129, 137)
    assert len(rig.processes()) == 1


async def test_a_container_may_have_a_terminal_of_its_own(rig: Rig) -> None:
    await rig.start(
        "sh", "-c", "test -t 0 && test -t 1 && stty size; read line; echo got $line", tty=True, stdin=True
    )
    process = await rig.runtime.attach(rig.pod, "main")
    assert process.stdin is not None
    process.resize(50, 132)
    os.write(process.stdin, b"fish\n")
    assert b"got fish\r\n" in await read_all(process.stdout)
    assert await process.wait() == 0
    process.close()
    assert "got fish" in rig.log_path().read_text()
    assert {line.stream for line in rig.log()} == {"stdout"}


async def test_a_container_without_stdin_reads_nothing(rig: Rig) -> None:
    assert (await rig.run("cat")).exit_code == 0


async def test_stdin_once_is_open_until_the_first_client_detaches(rig: Rig) -> None:
    await rig.start("sh", "-c", "cat; echo done", stdin=True, stdin_once=True)
    process = await rig.runtime.attach(rig.pod, "main")
    assert process.stdin is not None
    os.write(process.stdin, b"first\n")
    os.close(process.stdin)
    process.stdin = None
    assert await read_all(process.stdout) == b"first\ndone\n"
    assert (await rig.ended()).exit_code == 0
    process.close()


async def test_stdin_that_is_not_once_outlives_attached_clients(rig: Rig) -> None:
    await rig.start("sh", "-c", "read a; echo $a; read b; echo $b", stdin=True)
    for line in (b"one\n", b"two\n"):
        process = await rig.runtime.attach(rig.pod, "main")
        assert process.stdin is not None
        os.write(process.stdin, line)
        assert await read_until(process.stdout, line)
        process.close()
    await rig.ended()
    assert rig.output() == ["one", "two"]


async def test_attach_gives_both_streams_from_now_on(rig: Rig) -> None:
    await rig.start("sh", "-c", "echo before; read go; echo out; echo err >&2; exit 3", stdin=True)
    await until(lambda: rig.log_path().exists() and rig.output())
    first = await rig.runtime.attach(rig.pod, "main")
    second = await rig.runtime.attach(rig.pod, "main")
    assert first.stdin is not None
    os.write(first.stdin, b"\n")
    for process in (first, second):
        assert await read_all(process.stdout) == b"out\n"
        assert await read_all(process.stderr) == b"err\n"
        assert await process.wait() == 3
        process.close()


async def test_a_slow_reader_does_not_block_the_container(rig: Rig) -> None:
    await rig.start(
        "sh", "-c", "read go; head -c 8000000 /dev/zero | tr '\\0' x; echo; echo done", stdin=True
    )
    process = await rig.runtime.attach(rig.pod, "main")
    assert process.stdin is not None
    os.write(process.stdin, b"\n")
    assert (await rig.ended()).exit_code == 0
    assert rig.output()[-1] == "done"
    heard = await read_all(process.stdout)
    assert 1 << 16 <= len(heard) < 2 << 20
    process.close()


async def test_attaching_to_an_exited_container_is_rejected(rig: Rig) -> None:
    await rig.shell("true")
    with pytest.raises(Failure, match="not running"):
        await rig.runtime.attach(rig.pod, "main")


async def test_no_descriptor_is_left_open_here_or_there(rig: Rig) -> None:
    await rig.start("sleep", "60", stdin=True)

    def open_here() -> int:
        return len(os.listdir("/proc/self/fd"))

    def open_there() -> int:
        return len(os.listdir(f"/proc/{rig.runtime.pid}/fd"))

    async def use_everything() -> None:
        process = await rig.runtime.execute(rig.pod, "main", ["true"], stdin=True)
        await process.wait()
        process.close()
        process = await rig.runtime.execute(rig.pod, "main", ["true"], stdin=True, tty=True)
        await process.wait()
        process.close()
        (await rig.runtime.attach(rig.pod, "main")).close()
        with pytest.raises(ConnectionRefusedError):
            await rig.runtime.connect(rig.pod, 1)

    await use_everything()
    before, there = open_here(), open_there()
    for _ in range(5):
        await use_everything()
    assert open_here() == before
    await until(lambda: open_there() <= there, "the shim has kept descriptors")
    assert processes.children(rig.runtime.pid) == [(await rig.start("sleep", "60", stdin=True)).pid]


SERVER = "import socket,sys; s=socket.create_server((sys.argv[1],int(sys.argv[2]))); c,_=s.accept(); c.sendall(b'mine')"


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "{own}"])
async def test_a_port_of_a_pod_is_found_wherever_its_program_listens(rig: Rig, address: str) -> None:
    own = (await rig.sandbox()).address
    port = free_port()
    await rig.start("python3", "-c", SERVER, address.format(own=own), str(port))
    async with asyncio.timeout(10):
        while True:
            try:
                connection = await rig.runtime.connect(rig.pod, port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
    assert await asyncio.get_running_loop().sock_recv(connection, 10) == b"mine"
    connection.close()


async def test_a_port_of_another_pod_is_not_taken_for_ones_own(rig: Rig) -> None:
    await rig.sandbox()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionRefusedError, match=f"listens on port {port}"):
        await rig.runtime.connect(rig.pod, port)
    (await rig.runtime.connect(rig.pod, port, host="127.0.0.1")).close()
    server.close()
    await server.wait_closed()


async def test_plain_pods_are_on_the_hosts_network(rig: Rig) -> None:
    assert await rig.runtime.listen("10.96.0.1", 443) is None
    assert not rig.runtime.features.own_network


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])

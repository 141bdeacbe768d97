"""Pods reach each other and the gateway by address, and nothing else."""

import os
import signal
import socket
import threading

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, in_shim
from volcano.nodes.shim.isolation.network import GATEWAY, SERVICE_ADDRESSES, AddressPool
from volcano.nodes.shim.specs import Identity

SERVE = (
    "import socket; s = socket.create_server(('', {port})); print('up', flush=True); "
    "c, a = s.accept(); c.send(a[0].encode())"
)
ASK = "import socket; print(socket.create_connection(('{host}', {port}), 5).recv(64).decode())"


def python(code: str) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-c", code)


def answer_once(listener: socket.socket, answer: bytes) -> threading.Thread:
    def serve() -> None:
        with listener.accept()[0] as connection:
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def _needs_a_python_that_everybody_can_run() -> None:
    if not os.path.exists("/usr/bin/python3"):
        pytest.skip("no /usr/bin/python3 to serve and ask with")


def test_a_pod_reaches_another_under_its_own_address(any_setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str, str, str]:
        one, two = shim.pod("one"), shim.pod("two")
        server = shim.start(one, command=python(SERVE.format(port=80)))
        up = server.line()
        seen = shim.run(two, command=python(ASK.format(host=one.address, port=80))).output
        server.ended()
        return up, seen.strip(), one.address, two.address

    up, seen, one, two = in_shim(any_setting, body)
    assert up == "up"
    assert seen == two != one


def test_services_of_the_cluster_are_reached_at_their_addresses(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        pod = shim.pod()
        seen = []
        for address in (GATEWAY, *SERVICE_ADDRESSES):
            with shim.isolation.open_socket(None, socket.AF_INET, socket.SOCK_STREAM) as listener:
                listener.bind((address, 443))
                listener.listen()
                answering = answer_once(listener, b"served")
                seen.append(shim.run(pod, command=python(ASK.format(host=address, port=443))).output.strip())
                answering.join()
        return seen

    assert in_shim(setting, body) == ["served"] * 3


def test_a_socket_can_be_made_in_a_pod_s_network(setting: Setting) -> None:
    def body(shim: ForkedShim) -> bytes:
        pod = shim.pod()
        server = shim.start(pod, command=python(SERVE.replace("''", "'127.0.0.1'").format(port=8080)))
        server.line()
        with shim.isolation.open_socket(pod, socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(("127.0.0.1", 8080))
            answer = connection.recv(64)
        server.ended()
        return answer

    assert in_shim(setting, body) == b"127.0.0.1"


def test_a_pod_has_one_interface_and_no_way_out(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        return shim.run(shim.pod(), "ls /sys/class/net; tail -n +2 /proc/net/route | wc -l").lines

    lines = in_shim(setting, body)
    assert {"eth0", "lo"} <= set(lines[:-1])
    assert lines[-1] == "2"


def test_any_user_may_listen_on_a_low_port(as_root: Setting) -> None:
    def body(shim: ForkedShim) -> int:
        code = "import socket; socket.create_server(('', 80))"
        return shim.run(shim.pod(), command=python(code), identity=Identity(user=1000)).code

    assert in_shim(as_root, body) == 0


def test_a_pod_gets_the_address_it_had_before_if_it_is_free(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str, str, list[str]]:
        first = shim.pod("a", wanted_address="10.88.7.7")
        second = shim.pod("b", wanted_address="10.88.7.7")
        shim.isolation.remove(first)
        third = shim.pod("c", wanted_address="10.88.7.7")
        return first.address, second.address, third.address, shim.run(third, "grep -w c /etc/hosts").lines

    first, second, third, hosts = in_shim(setting, body)
    assert first == third == "10.88.7.7" != second
    assert hosts == ["10.88.7.7 c"]


def test_an_address_given_back_rests_before_it_is_given_out_again() -> None:
    addresses = AddressPool()
    first = addresses.allocate()
    addresses.release(first)
    assert addresses.allocate() != first
    assert addresses.allocate(first) == first


@pytest.mark.parametrize("wanted", ["", "10.88.0.1", "10.89.0.20", "10.88.255.255", "no address", "::1"])
def test_an_address_that_cannot_be_had_is_replaced(wanted: str) -> None:
    assert AddressPool().allocate(wanted) == "10.88.0.16"


def test_a_pod_on_the_host_s_network_is_there(any_setting: Setting) -> None:
    """In a user namespace too, where the shim itself cannot rejoin the host's network."""

    def body(shim: ForkedShim) -> tuple[str, str, str, str]:
        pod = shim.pod(host_network=True, host_address="192.0.2.7")
        running = shim.start(pod, "stat -Lc %i /proc/self/ns/net; sleep 100")
        first = running.line()
        further = running.execute("stat -Lc %i /proc/self/ns/net; hostname").output
        with shim.isolation.open_socket(pod, socket.AF_INET, socket.SOCK_STREAM) as outside:
            outside.settimeout(5)
            outside.connect(("127.0.0.1", port))
            answer = outside.recv(64).decode()
        running.signal(signal.SIGKILL)
        running.ended()
        return first, further, pod.address, answer

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answering = answer_once(listener, b"of the host")
        first, further, address, answer = in_shim(any_setting, body)
        answering.join()
    of_the_host = str(os.stat("/proc/self/ns/net").st_ino)
    assert first == of_the_host
    assert further.splitlines() == [of_the_host, "a"]
    assert address == "192.0.2.7"
    assert answer == "of the host"

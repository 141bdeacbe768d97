"""Texts shared with device plugins are read and written exactly, and malformed ones are explained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.devices import ascend, gpushare, vgpu
from volcano.kube.devices.ascend import Npu, Part
from volcano.kube.devices.vgpu import Card, DeviceShare

WORD = st.text("abcXYZ-0189[] ", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
COUNT = st.integers(0, 1 << 40)
CARDS = st.lists(st.builds(Card, WORD, COUNT, COUNT, WORD, st.booleans(), WORD))
SHARES = st.lists(st.builds(DeviceShare, WORD, WORD, COUNT, COUNT), max_size=4)
NPUS = st.lists(
    st.builds(Npu, WORD, COUNT, COUNT, COUNT, COUNT, WORD, st.booleans(), COUNT, WORD, st.none() | COUNT)
)
REGISTER = "GPU-a,10,16000,NVIDIA-NVIDIA A100,true,hami-core:GPU-b,7,40960,NVIDIA-A100,false,mig:"


def test_a_register_of_the_device_plugin_is_read() -> None:
    assert vgpu.parse_register(REGISTER) == [
        Card("GPU-a", 10, 16000, "NVIDIA-NVIDIA A100", True, "hami-core"),
        Card("GPU-b", 7, 40960, "NVIDIA-A100", False, "mig"),
    ]
    assert vgpu.format_register(vgpu.parse_register(REGISTER)) == REGISTER
    assert vgpu.parse_register("") == []


def test_an_assignment_is_written_as_the_device_plugin_reads_it() -> None:
    shares = [
        [DeviceShare("GPU-a", "NVIDIA", 4000, 0), DeviceShare("GPU-b", "NVIDIA", 8000, 50)],
        [DeviceShare("GPU-a", "NVIDIA", 1, 100)],
    ]
    text = "GPU-a,NVIDIA,4000,0:GPU-b,NVIDIA,8000,50:;GPU-a,NVIDIA,1,100:"
    assert vgpu.format_assignment(shares) == text
    assert vgpu.parse_assignment(text) == shares
    assert ascend.format_assignment(shares) == text + ";"
    assert ascend.parse_assignment(text + ";") == shares


def test_containers_whose_devices_were_handed_out_keep_their_place() -> None:
    assert vgpu.parse_assignment(";GPU-a,NVIDIA,4,0:") == [[], [DeviceShare("GPU-a", "NVIDIA", 4, 0)]]
    assert vgpu.parse_assignment("") == []


@given(CARDS)
def test_registers_are_read_as_they_were_written(cards: list[Card]) -> None:
    assert vgpu.parse_register(vgpu.format_register(cards)) == cards


@given(st.lists(SHARES.filter(bool), max_size=4))
def test_assignments_are_read_as_they_were_written(containers: list[list[DeviceShare]]) -> None:
    assert vgpu.parse_assignment(vgpu.format_assignment(containers)) == containers
    assert ascend.parse_assignment(ascend.format_assignment(containers)) == containers


@given(NPUS)
def test_ascend_registers_are_read_as_they_were_written(devices: list[Npu]) -> None:
    assert ascend.parse_register(ascend.format_register(devices)) == devices


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "GPU-a,10,16000,NVIDIA:", "4 fields; it should be uuid,split,memory,type", id="few fields"
        ),
        pytest.param(
            "GPU-a,ten,16000,A100,true,mig:", "split count of .* whole number, not 'ten'", id="split"
        ),
        pytest.param("GPU-a,10,-5,A100,true,mig:", "memory of .* whole number, not '-5'", id="memory"),
        pytest.param("GPU-a,10,5,A100,fine,mig:", "health of .* true or false, not 'fine'", id="health"),
        pytest.param(",10,5,A100,true,mig:", "has no uuid", id="no uuid"),
        pytest.param(
            "GPU-a,10,9999999999999,A100,true,mig:", "memory of .* should be at most", id="enormous"
        ),
    ],
)
def test_a_malformed_register_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vgpu.parse_register(text)


@pytest.mark.parametrize(
    "text", ["GPU-a,NVIDIA,4000", "GPU-a", ",NVIDIA,1,1:", "GPU-a,NVIDIA,x,1:", "a,b,1,²:"]
)
def test_a_malformed_assignment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        vgpu.parse_assignment(text)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"id":"a"}]', '[{"id":"","count":1,"devmem":1,"devcore":1,"type":"x"}]']
)
def test_a_malformed_ascend_register_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should"):
        ascend.parse_register(text)


def test_fields_of_an_ascend_register_that_are_not_used_are_ignored() -> None:
    text = (
        '[{"id":"n0","index":0,"count":7,"devmem":21527,"devcore":8,"type":"Ascend310P","numa":1,"health":true,'
        '"devicevendor":"Huawei","custominfo":{"NetworkID":3},"devicepairscore":{"n1":2}}]'
    )
    assert ascend.parse_register(text) == [
        Npu("n0", 0, 7, 21527, 8, "Ascend310P", healthy=True, numa=1, network=3)
    ]


def test_what_an_ascend_runtime_reads() -> None:
    parts = [Part("n0", template="vir02"), Part("n1", memory=4096, cores=50), Part("n2")]
    text = '[{"UUID":"n0","temp":"vir02"},{"UUID":"n1","memory":4096,"core":50},{"UUID":"n2"}]'
    assert ascend.format_parts(parts) == text


def test_names_of_an_ascend_chip() -> None:
    assert ascend.register_name("Ascend310P") == "hami.io/node-register-Ascend310P"
    assert ascend.to_allocate_name("Ascend310P") == "hami.io/Ascend310P-devices-to-allocate"
    assert ascend.allocated_name("Ascend310P") == "hami.io/Ascend310P-devices-allocated"
    assert ascend.parts_name("Ascend310P") == "huawei.com/Ascend310P"


def test_a_mig_instance_names_its_card_group_and_position() -> None:
    assert vgpu.mig_id("GPU-a", "group2", 3) == "GPU-a[group2-3]"
    assert vgpu.card_uuid("GPU-a[group2-3]") == "GPU-a"
    assert vgpu.parse_mig_id("GPU-a[two-g-3]") == ("two-g", 3)
    assert vgpu.parse_mig_id("GPU-a") is None
    for text in ("GPU-a[3]", "GPU-a[g-x]", "GPU-a[g-1"):
        with pytest.raises(ValueError, match="should be uuid"):
            vgpu.parse_mig_id(text)


@given(st.lists(st.integers(0, 64)))
def test_indexes_of_shared_cards_are_read_as_they_were_written(cards: list[int]) -> None:
    assert gpushare.parse_index(gpushare.format_index(cards)) == tuple(cards)


def test_indexes_that_are_no_numbers() -> None:
    assert gpushare.parse_unhealthy("1, 3,x,-2,") == {1, 3}
    with pytest.raises(ValueError, match="indexes of cards"):
        gpushare.parse_index("0,x")

"""No bytes break the protobuf decoder: they are an object or a ValueError."""

from random import Random

import pytest

from tests.fuzz.samples import samples
from volcano.kube.api import protobuf, type_info


@pytest.mark.parametrize("rounds", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_damaged_protobuf_of_a_known_kind_is_decoded_or_rejected(rounds: int) -> None:
    random, encoded = Random(rounds), []
    for sample in samples():
        type_ = type_info.type_named(sample["apiVersion"], sample["kind"])
        if type_ is not None:
            encoded.append(protobuf.encode(type_, sample))
    decoded = 0
    for _ in range(rounds):
        raw = bytearray(random.choice(encoded))
        for _ in range(random.randint(1, 4)):
            raw[random.randrange(4, len(raw))] = random.randrange(256)
        try:
            assert isinstance(protobuf.decode(bytes(raw)), dict)
            decoded += 1
        except ValueError:
            continue
    assert 0 < decoded < rounds

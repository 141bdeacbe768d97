"""The metadata that only the server writes."""

from random import Random
from uuid import UUID

from volcano.apiserver.registry.object_meta import uids


def test_uids_are_version_4_uuids() -> None:
    new, reference = uids(Random(7)), Random(7)
    for _ in range(100):
        assert new() == str(UUID(int=reference.getrandbits(128), version=4))

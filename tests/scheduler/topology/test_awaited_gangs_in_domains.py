"""Admitted gangs whose pods do not exist yet: room is kept for them inside one domain, or not at all."""

from tests.builders import JobManifests, job, resources
from tests.scheduler.topology.clusters import LEAF_OF, SPINE_OF, gang, place, topology

HARD_1 = topology(tier=1)


def awaited(tier: int = 1, cpu: int = 16) -> JobManifests:
    """An admitted gang of two pods of half as much cpu each, none of which exists yet."""
    found = gang("later", 2, 8, topology(tier=tier), min_resources=resources(cpu=cpu))
    return JobManifests(found.group, ())


def test_room_for_an_awaited_gang_is_kept_in_one_domain() -> None:
    """Seven nodes are free; the elastic job may use five of them beyond its minimum, and one whole leaf stays."""
    result = place(awaited(), job("now", 8, cpu=8, min_available=1), used_cpu={"n0": 8})
    taken = set(result.bound().values()) | {"n0"}
    assert len(result.bound()) == 5
    free = [name for name in LEAF_OF if name not in taken]
    assert len({LEAF_OF[name] for name in free}) == 1


def test_nothing_is_kept_for_a_gang_that_no_domain_takes() -> None:
    one_per_leaf = {name: 8 for name in LEAF_OF if int(name[1:]) % 2}
    result = place(awaited(), job("now", 4, cpu=8, min_available=1), used_cpu=one_per_leaf)
    assert len(result.bound()) == 4


def test_a_wider_limit_keeps_room_under_one_spine() -> None:
    one_per_leaf = {name: 8 for name in LEAF_OF if int(name[1:]) % 2}
    result = place(awaited(tier=2), job("now", 4, cpu=8, min_available=1), used_cpu=one_per_leaf)
    taken = {*result.bound().values(), *one_per_leaf}
    free = {SPINE_OF[LEAF_OF[name]] for name in LEAF_OF if name not in taken}
    assert len(result.bound()) == 2
    assert len(free) == 1

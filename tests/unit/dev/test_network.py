"""The networks of clusters on one machine do not overlap."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from dev.kube.network import ALL, Network, blocks, candidates

HOME = Path("/somewhere/.state/cluster")
BLOCK = Network(IPv4Network("10.77.8.0/22"), "landfall2")


def test_a_block_holds_every_address() -> None:
    assert (BLOCK.host, BLOCK.node, BLOCK.services, BLOCK.service, BLOCK.pods) == (
        "10.77.8.1",
        "10.77.8.2",
        "10.77.9.0/24",
        "10.77.9.1",
        "10.77.10.0/23",
    )
    assert IPv4Network(BLOCK.services).subnet_of(BLOCK.block)
    assert IPv4Network(BLOCK.pods).subnet_of(BLOCK.block)
    assert IPv4Address(BLOCK.host) in BLOCK.block


def test_blocks_do_not_overlap_and_fill_the_network() -> None:
    found = list(blocks(HOME, ALL))

    assert len({block.link for block in found}) == len(found) == 64
    assert sorted(block.block for block in found) == list(ALL.subnets(new_prefix=22))


def test_a_home_always_prefers_the_same_block() -> None:
    assert list(blocks(HOME, ALL)) == list(blocks(HOME, ALL))
    assert next(blocks(HOME, ALL)) != next(blocks(HOME.with_name("other"), ALL))


def test_a_block_with_a_route_into_it_is_taken() -> None:
    first, second, *_ = blocks(HOME, ALL)

    free = candidates(HOME, ALL, [IPv4Network(f"{first.node}/32")])

    assert free[0] == second
    assert first not in free


@pytest.mark.parametrize(
    ("route", "free"), [("10.0.0.0/8", 0), ("0.0.0.0/1", 64), ("192.168.0.0/16", 64)]
)
def test_routes_to_half_the_internet_are_ignored(route: str, free: int) -> None:
    assert len(candidates(HOME, ALL, [IPv4Network(route)])) == free

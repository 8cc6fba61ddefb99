"""The network of one cluster: a block of addresses that no other cluster on this machine uses.

A veth pair connects the machine with the node's network namespace. The machine routes the addresses
of pods and Services through it, so programs on the machine and pods reach each other directly,
without address translation. Pods reach nothing else.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from dev.servers import cache
from dev.servers.cache import MissingTool
from dev.servers.ports import write

ALL = IPv4Network("10.77.0.0/16")
BASE = "LANDFALL_CLUSTER_NETWORK"
"""The environment variable that replaces ``ALL`` by another network, of at least a /22."""
BLOCK = 22
MEMORY = "network.json"


@dataclass(frozen=True, slots=True)
class Network:
    """A block of addresses: a /24 for link and DNS, a /24 for Services, a /23 for pods.

    Attributes:
        block: All addresses.
        link: The name of the machine's end of the veth pair. The kernel keeps it unique, so the
            creator of the link owns the block.
    """

    block: IPv4Network
    link: str

    @property
    def host(self) -> str:
        """The address by which pods reach the machine."""
        return str(self.block[1])

    @property
    def node(self) -> str:
        """The address of the node and of its DNS server."""
        return str(self.block[2])

    @property
    def services(self) -> str:
        """The address range of Services."""
        return f"{self.block[256]}/24"

    @property
    def service(self) -> str:
        """The address of the API server's Service."""
        return str(self.block[257])

    @property
    def pods(self) -> str:
        """The address range of pods."""
        return f"{self.block[512]}/23"


def blocks(home: Path, network: IPv4Network) -> Iterator[Network]:
    """All blocks of a network, beginning with one that depends on the home."""
    count = 2 ** (BLOCK - network.prefixlen)
    first = int(hashlib.sha256(str(home).encode()).hexdigest(), 16) % count
    for number in (*range(first, count), *range(first)):
        address = int(network.network_address) + number * 2 ** (32 - BLOCK)
        yield Network(IPv4Network((address, BLOCK)), f"landfall{number}")


def candidates(home: Path, network: IPv4Network, routes: Iterable[IPv4Network]) -> list[Network]:
    """The blocks that no route overlaps, the preferred one first."""
    # VPNs route half of all addresses; such routes do not count.
    taken = [route for route in routes if route.prefixlen >= 8]
    return [
        candidate
        for candidate in blocks(home, network)
        if not any(candidate.block.overlaps(route) for route in taken)
    ]


def claim(home: Path, init: int) -> Network:
    """Claim a block and set up its link and routes.

    Args:
        home: The home of the cluster.
        init: The id of a process in the node's network namespace.

    Raises:
        MissingTool: No block is free.
    """
    network = IPv4Network(os.environ.get(BASE) or ALL)
    for block in candidates(home, network, _routes()):
        if _link(block, init, home):
            write(home / MEMORY, json.dumps([str(block.block), block.link]))
            return block
    raise MissingTool(
        f"no free block in {network} (see `ip route`): "
        f"name a free network, such as {BASE}=10.200.0.0/16"
    )


def claimed(home: Path) -> Network:
    """The block that the home has claimed."""
    block, link = json.loads((home / MEMORY).read_text())
    return Network(IPv4Network(block), link)


def release(home: Path) -> None:
    """Delete the link of this home; the kernel would delete it later, with the namespace."""
    while (home / MEMORY).exists() and (found := links(home)):
        for link in found:
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
    (home / MEMORY).unlink(missing_ok=True)


def links(home: Path) -> list[str]:
    """Return the names of this home's links, at most one."""
    return [link["ifname"] for link in _ip("link") if link.get("ifalias") == str(home)]


def _link(network: Network, init: int, home: Path) -> bool:
    """Create the link and configure both ends; False if a link of that name exists."""
    peer = ["type", "veth", "peer", "name", "eth0", "netns", str(init)]
    if subprocess.run(
        ["ip", "link", "add", network.link, *peer], capture_output=True, check=False
    ).returncode:
        return False
    host_commands = [
        f"link set {network.link} alias {home}",
        f"address add {network.host}/30 dev {network.link}",
        f"link set {network.link} up",
        f"route add {network.pods} via {network.node}",
        f"route add {network.services} via {network.node}",
    ]
    node_commands = [
        "link set lo up",
        f"address add {network.node}/30 dev eth0",
        "link set eth0 up",
        f"route add default via {network.host}",
    ]
    for prefix, commands in (
        ([], host_commands),
        (["nsenter", "-t", str(init), "-n"], node_commands),
    ):
        cache.run([*prefix, "ip", "-batch", "-"], stdin="\n".join(commands))
    return True


def _routes() -> list[IPv4Network]:
    return [IPv4Network(route["dst"]) for route in _ip("-4", "route") if route["dst"] != "default"]


def _ip(*what: str) -> list[dict[str, str]]:
    """The output of ``ip … show``."""
    done = subprocess.run(["ip", "-json", *what, "show"], capture_output=True, check=True)
    entries: list[dict[str, str]] = json.loads(done.stdout or "[]")
    return entries

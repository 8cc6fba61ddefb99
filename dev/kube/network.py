"""The addresses of one cluster: a block of its own, so that clusters on one machine do not meet.

A veth pair leads from the machine into the node's network namespace. The machine has routes to pods
and Services through it, so that programs here and pods reach each other by address; nothing is
translated, and pods reach nothing else.
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
from dev.servers.cache import Missing
from dev.servers.ports import write

ALL = IPv4Network("10.77.0.0/16")
BASE = "LANDFALL_CLUSTER_NETWORK"
"""Environment variable: another network than ``ALL``, at least a /22, to take blocks from."""
BLOCK = 22
MEMORY = "network.json"


@dataclass(frozen=True, slots=True)
class Network:
    """A block: one /24 for link and DNS, one for Services, two for pods.

    Attributes:
        block: all of it.
        link: name of the machine's end of the veth pair; unique on the machine, so it is also the
            claim to the block.
    """

    block: IPv4Network
    link: str

    @property
    def host(self) -> str:
        """The machine's address, by which pods reach it."""
        return str(self.block[1])

    @property
    def node(self) -> str:
        """The node's address, where DNS is, too."""
        return str(self.block[2])

    @property
    def services(self) -> str:
        """Range of the Services."""
        return f"{self.block[256]}/24"

    @property
    def service(self) -> str:
        """The API server's address as a Service."""
        return str(self.block[257])

    @property
    def pods(self) -> str:
        """Range of the pods."""
        return f"{self.block[512]}/23"


def blocks(home: Path, network: IPv4Network) -> Iterator[Network]:
    """All blocks there are, beginning with the one this home likes best."""
    count = 2 ** (BLOCK - network.prefixlen)
    favourite = int(hashlib.sha256(str(home).encode()).hexdigest(), 16) % count
    for number in (*range(favourite, count), *range(favourite)):
        address = int(network.network_address) + number * 2 ** (32 - BLOCK)
        yield Network(IPv4Network((address, BLOCK)), f"landfall{number}")


def candidates(home: Path, network: IPv4Network, routes: Iterable[IPv4Network]) -> list[Network]:
    """The blocks that no route leads into, the favourite first. Routes to half the world, as VPNs set them, do not count."""
    taken = [route for route in routes if route.prefixlen >= 8]
    return [
        found
        for found in blocks(home, network)
        if not any(found.block.overlaps(route) for route in taken)
    ]


def claim(home: Path, init: int) -> Network:
    """A block of this home's own, with its link into the network namespace of a process, and routes to pods and Services.

    Raises:
        Missing: there is none.
    """
    network = IPv4Network(os.environ.get(BASE) or ALL)
    for block in candidates(home, network, _routes()):
        if _link(block, init, home):
            write(home / MEMORY, json.dumps([str(block.block), block.link]))
            return block
    raise Missing(
        f"no free block in {network} (see `ip route`): name a network that is free by {BASE}=10.200.0.0/16"
    )


def remembered(home: Path) -> Network:
    """The block that was claimed."""
    block, link = json.loads((home / MEMORY).read_text())
    return Network(IPv4Network(block), link)


def release(home: Path) -> None:
    """Have no link of this home's. The end of its namespace takes it along, too, but in its own time."""
    while (home / MEMORY).exists() and (found := links(home)):
        for link in found:
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
    (home / MEMORY).unlink(missing_ok=True)


def links(home: Path) -> list[str]:
    """Names of this home's links; at most one."""
    return [link["ifname"] for link in _ip("link") if link.get("ifalias") == str(home)]


def _link(network: Network, init: int, home: Path) -> bool:
    """Make the link, unless somebody has it; then its two ends."""
    peer = ["type", "veth", "peer", "name", "eth0", "netns", str(init)]
    if subprocess.run(
        ["ip", "link", "add", network.link, *peer], capture_output=True, check=False
    ).returncode:
        return False
    here = [
        f"link set {network.link} alias {home}",
        f"address add {network.host}/30 dev {network.link}",
        f"link set {network.link} up",
        f"route add {network.pods} via {network.node}",
        f"route add {network.services} via {network.node}",
    ]
    there = [
        "link set lo up",
        f"address add {network.node}/30 dev eth0",
        "link set eth0 up",
        f"route add default via {network.host}",
    ]
    for prefix, commands in (([], here), (["nsenter", "-t", str(init), "-n"], there)):
        cache.run([*prefix, "ip", "-batch", "-"], stdin="\n".join(commands))
    return True


def _routes() -> list[IPv4Network]:
    return [IPv4Network(route["dst"]) for route in _ip("-4", "route") if route["dst"] != "default"]


def _ip(*what: str) -> list[dict[str, str]]:
    """What ``ip`` shows."""
    done = subprocess.run(["ip", "-json", *what, "show"], capture_output=True, check=True)
    shown: list[dict[str, str]] = json.loads(done.stdout or "[]")
    return shown

"""The check for a node lists everything that a machine lacks, and how to install it."""

from pathlib import Path

import pytest

from dev.kube import requirements
from dev.servers.cache import MissingTool


def test_a_folder_that_is_hidden_from_the_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        MissingTool,
        match="another place for /var/lib/ci/state: everything below /var/lib is hidden",
    ):
        requirements.check([Path("/var/lib/ci/state"), tmp_path], ["/run", "/var/lib"])


def test_missing_packages_make_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr(requirements, "CNI_FOLDERS", ("/nowhere",))

    with pytest.raises(MissingTool) as missing:
        requirements.check([], [])

    assert (
        "programs: apt-get install --no-install-recommends containerd runc iptables ipset"
        " conntrack catatonit buildah mmdebstrap openssl iproute2 util-linux mount"
        " containernetworking-plugins" in str(missing.value)
    )

"""Files that one host alone sees, before those of the roots."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from catena.fileserver.overlay import OverlaidClient
from catena.fileserver.roots import RootsClient


@pytest.fixture
def client(tmp_path: Path) -> OverlaidClient:
    root, own = tmp_path / "root", tmp_path / "own"
    (root / "app").mkdir(parents=True)
    own.mkdir()
    (root / "app" / "init.sls").write_text("theirs")
    (root / "top.sls").write_text("top")
    (own / "mine").write_text("mine")
    files = {"app/init.sls": own / "mine", "chains/one/x.sls": own / "mine", "gone": own / "gone"}
    return OverlaidClient(RootsClient({"base": [str(root)], "dev": [str(root)]}), files)


def test_overlay_files_take_precedence_over_the_roots(
    client: OverlaidClient, tmp_path: Path
) -> None:
    found = client.fetch_all(["app/init.sls", "top.sls", "none"])
    assert found == [tmp_path / "own/mine", tmp_path / "root/top.sls", None]
    entry = client.entry("chains/one/x.sls")
    assert entry is not None
    assert (entry.sha256, entry.size) == (sha256(b"mine").hexdigest(), 4)


def test_overlay_files_are_listed(client: OverlaidClient) -> None:
    paths = [entry.path for entry in client.entries()]
    assert paths == ["app/init.sls", "chains/one/x.sls", "top.sls"]
    assert [e.path for e in client.entries(prefix="chains/")] == ["chains/one/x.sls"]
    assert client.folders() == ["app", "chains", "chains/one"]
    assert client.folders(prefix="chains/one") == ["chains/one"]
    assert client.environments() == ["base", "dev"]


def test_overlay_files_are_not_in_other_environments(client: OverlaidClient) -> None:
    found = client.fetch("app/init.sls", "dev")
    assert found is not None
    assert found.read_text() == "theirs"
    assert client.entry("chains/one/x.sls", "dev") is None
    assert "chains" not in client.folders("dev")


def test_file_that_has_gone_is_none(client: OverlaidClient) -> None:
    assert client.fetch("gone") is None
    assert client.entry("gone") is None

"""The bundle is cached between commands."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catena.ssh.push import kept_bundle as module
from catena.ssh.push.bundle import bundle
from catena.ssh.push.kept_bundle import KeptBundle, kept_bundle


@pytest.fixture(autouse=True)
def afresh() -> None:
    module._found.cache_clear()


def test_second_command_knows_the_hash_and_supplies_the_same(tmp_path: Path) -> None:
    first = kept_bundle(tmp_path)
    module._found.cache_clear()
    second = kept_bundle(tmp_path)
    assert isinstance(second, KeptBundle)
    assert second.sha256 == first.sha256 == bundle().sha256
    assert zlib.decompress(second.supply()) == bundle().data
    assert second.argv("python3", "/r") == first.argv("python3", "/r")


def test_changed_file_rebuilds_the_bundle_and_removes_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_bundle(tmp_path)
    (old,) = tmp_path.iterdir()
    own = tmp_path / "own.py"
    own.write_text("x = 1\n")
    monkeypatch.setattr(module, "files", lambda: [("own.py", own)])
    module._found.cache_clear()
    assert not isinstance(kept_bundle(tmp_path), KeptBundle)
    assert not old.exists()


@pytest.mark.parametrize("damage", ["", "zz", "torn", "gone"])
def test_damaged_bundle_is_rebuilt(tmp_path: Path, damage: str) -> None:
    kept_bundle(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if damage != "gone":
        path.write_bytes(whole[:1000] if damage == "torn" else damage.encode())
    module._found.cache_clear()
    again = kept_bundle(tmp_path)
    if damage == "gone":
        path.unlink()
    assert again.sha256 == bundle().sha256
    assert zlib.decompress(again.supply()) == bundle().data


def test_many_visits_at_once_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(module, "_keep", lambda path, bundle: made.append(path))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(kept_bundle, [tmp_path] * 8))
    assert len(made) == 1 and len({id(one) for one in found}) == 1


def test_bundle_is_built_when_the_cache_is_not_writable(tmp_path: Path) -> None:
    assert kept_bundle(tmp_path / "nowhere").sha256 == bundle().sha256

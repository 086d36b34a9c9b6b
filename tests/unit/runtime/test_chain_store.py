"""A chain's folder that is read while a newer run takes its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core import frozen
from catena.core.clock import SystemClock
from catena.runtime import chain_manifest, chain_store, damage
from catena.runtime.chain_store import ChainStore
from catena.runtime.journal import read_records
from tests.unit.runtime.manifests import MANIFEST


def test_look_gives_one_run_while_a_newer_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_manifest, "fetch_chunk", lambda *_: b"")
    store = ChainStore(tmp_path, "boot", "session", SystemClock())
    files: Any = None
    store.receive(frozen.replace(MANIFEST, epoch=1), files)
    real, epochs = read_records, [2, 3]

    def replaced(path: Path) -> Any:
        if epochs and path.parent.name.isdigit():
            with monkeypatch.context() as still:
                still.setattr(chain_store, "read_records", real)
                store.receive(frozen.replace(MANIFEST, epoch=epochs.pop(0)), files)
        return real(path)

    monkeypatch.setattr(chain_store, "read_records", replaced)
    seen = store.look(MANIFEST.chain_id)
    assert seen is not None and seen.manifest.epoch == 3
    epochs.append(4)
    assert [chain.manifest.epoch for chain in store.chains()] == [4]
    assert not list(damage.known(tmp_path))


def test_look_finds_no_chain_between_two_runs(tmp_path: Path) -> None:
    store = ChainStore(tmp_path, "boot", "session", SystemClock())
    assert store.look(7) is None
    (store.folder / "7").mkdir(parents=True)
    assert store.look(7) is None
    assert store.chains() == []


def test_chain_has_ended_once_its_journal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_manifest, "fetch_chunk", lambda *_: b"")
    store = ChainStore(tmp_path, "boot", "session", SystemClock())
    number = MANIFEST.chain_id
    assert not chain_store.has_ended(tmp_path, number)
    files: Any = None
    store.receive(MANIFEST, files)
    assert not chain_store.has_ended(tmp_path, number)
    with store.open(number) as chain:
        assert chain is not None
        chain.record("closed", outcome="cancelled", reason="given up")
    assert chain_store.has_ended(tmp_path, number)
    (tmp_path / "chains" / str(number) / "manifest.json").write_text("garbage")
    assert not chain_store.has_ended(tmp_path, number)

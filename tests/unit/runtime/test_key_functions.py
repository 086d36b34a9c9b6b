from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from catena.core.errors import NotFoundError
from catena.runtime.functions import key
from catena.transport.keys import fingerprint, load_or_create


def context_of(folder: Path) -> Any:
    return SimpleNamespace(opts={"pki_dir": str(folder)})


def test_host_shows_the_fingerprint_that_its_master_will_show(tmp_path: Path) -> None:
    pair = load_or_create(tmp_path / "pki")
    assert key.finger(context_of(tmp_path / "pki")) == fingerprint(pair.public)


def test_trusted_master_is_shown_too(tmp_path: Path) -> None:
    master = load_or_create(tmp_path / "master")
    (tmp_path / "master.pub").write_text(master.public + "\n")
    assert key.finger_master(context_of(tmp_path)) == master.fingerprint


def test_key_functions_report_missing_keys(tmp_path: Path) -> None:
    for function in (key.finger, key.finger_master):
        with pytest.raises(NotFoundError):
            function(context_of(tmp_path))

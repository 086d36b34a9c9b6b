"""Folders of keyrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg.repos.apt_keyrings import (
    add_keyring,
    keyring_change,
    listed_keys,
    remove_keyring,
)
from catena.modules.pkg.repos.keys import KeySource
from catena.modules.pkg.repos.openpgp import binary_keyring
from tests.support.openpgp_keys import CURVE, CURVE_FINGERPRINT, CURVE_ID, RSA, RSA_ID
from tests.unit.states.conftest import MakeWorld

BINARY = binary_keyring(CURVE.encode(), "k")


@pytest.mark.parametrize(("name", "data"), [("k.gpg", BINARY), ("k.asc", CURVE.encode())])
@pytest.mark.parametrize("given", [CURVE, RSA])
def test_form_of_a_keyring_is_that_of_its_name(
    world: MakeWorld, tmp_path: Path, name: str, data: bytes, given: str
) -> None:
    path, context = tmp_path / name, world().context
    wanted = KeySource(text=CURVE)
    path.write_text(given)  # the wrong form below the name .gpg, or another key
    files, changes = keyring_change(context, path, wanted, "base")
    if name.endswith(".asc") and given == CURVE:
        assert files == ()
        return
    assert files == ((path, data),)
    assert changes["key"]["new"] == [CURVE_FINGERPRINT]
    path.write_bytes(data)
    assert keyring_change(context, path, wanted, "base") == ((), {})


def test_page_in_the_place_of_a_keyring_is_replaced(world: MakeWorld, tmp_path: Path) -> None:
    path = tmp_path / "k.gpg"
    path.write_text("<html>")
    files, changes = keyring_change(world().context, path, KeySource(text=CURVE), "base")
    assert files == ((path, BINARY),)
    assert changes == {"key": {"old": [], "new": [CURVE_FINGERPRINT]}}


def test_keys_are_added_listed_and_removed(world: MakeWorld, tmp_path: Path) -> None:
    folder, context = tmp_path / "keyrings", world(files={"repo.asc": RSA}).context
    assert listed_keys(folder) == {}
    add_keyring(context, KeySource(text=CURVE), "base", folder, None)
    add_keyring(context, KeySource(urls=("salt://repo.asc",)), "base", folder, None)
    (folder / "README").write_text("no key")
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{CURVE_ID}.gpg", "README", "repo.asc"
    ]  # fmt: skip
    found = listed_keys(folder)
    assert set(found) == {CURVE_ID, RSA_ID}
    assert found[CURVE_ID]["uid"] == "Repository <repo@example.org>"
    assert found[RSA_ID]["bits"] == 1024
    # A key that is there is not asked for.
    known = KeySource(ids=(RSA_ID[-8:],), server="no-server.invalid")
    add_keyring(context, known, "base", folder, "again.gpg")
    remove_keyring(folder, RSA_ID[-8:])
    assert set(listed_keys(folder)) == {CURVE_ID}
    with pytest.raises(CommandExecutionError, match="has the key"):
        remove_keyring(folder, RSA_ID)


@pytest.mark.parametrize("name", ["../k.gpg", "/etc/k", ".."])
def test_name_of_a_keyring_is_no_path(world: MakeWorld, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name of a keyring"):
        add_keyring(world().context, KeySource(text=CURVE), "base", tmp_path, name)


def test_key_has_to_be_named(world: MakeWorld, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a key"):
        add_keyring(world().context, KeySource(), "base", tmp_path, "k")

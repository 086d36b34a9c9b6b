from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from zmq.utils import z85

from catena.core.files import UnsafeFolderError
from catena.transport import keys
from catena.transport.keys import BadKeyError, KeyPair, UnsafeKeyError


@given(st.binary(min_size=32, max_size=32))
def test_key_text_equals_the_z85_encoding_of_libzmq(raw: bytes) -> None:
    text = keys.key_text(raw)
    assert keys.key_bytes(text) == raw
    assert z85.encode(raw).decode() == text


@pytest.mark.parametrize("text", ["", "x" * 39, "x" * 41, "~" * 40, "ä" * 40, "#" * 40])
def test_invalid_key_text_is_refused(text: str) -> None:
    with pytest.raises(BadKeyError):
        keys.key_bytes(text)


def test_raw_key_without_32_bytes_is_refused() -> None:
    with pytest.raises(BadKeyError):
        keys.key_text(b"x" * 31)


def test_fingerprint_is_the_hash_of_the_raw_key() -> None:
    pair = keys.generate()
    expected = hashlib.sha256(keys.key_bytes(pair.public)).hexdigest()
    assert pair.fingerprint == keys.fingerprint(pair.public) == expected


def test_fingerprints_are_compared_without_case_and_colons() -> None:
    assert keys.same_fingerprint("ab:CD:01", "ABcd01")
    assert not keys.same_fingerprint("abcd01", "abcd02")
    assert not keys.same_fingerprint("abcd01", "")


def test_secret_is_not_in_the_repr_of_a_key_pair() -> None:
    pair = keys.generate()
    assert pair.secret not in repr(pair)


def test_published_bootstrap_keys_are_a_pair() -> None:
    assert zmq.curve_public(keys.BOOTSTRAP.secret.encode()).decode() == keys.BOOTSTRAP.public


def test_key_pair_is_created_once_with_private_modes(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "pki"
    pair = keys.load_or_create(folder)
    assert keys.load_or_create(folder) == pair == keys.load(folder)
    assert stat.S_IMODE((folder / "curve.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "curve.pub").read_text().strip() == pair.public


def test_key_pairs_of_two_names_differ(tmp_path: Path) -> None:
    assert keys.load_or_create(tmp_path / "p") != keys.load_or_create(tmp_path / "p", "other")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_secret_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    keys.load_or_create(tmp_path / "p")
    (tmp_path / "p" / "curve.key").chmod(mode)
    with pytest.raises(UnsafeKeyError, match="0600"):
        keys.load_or_create(tmp_path / "p")


@pytest.mark.parametrize("content", [b"", b"x" * 40 + b"y", b"\xff" * 40, b"~" * 40])
def test_damaged_secret_key_is_refused_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    keys.load_or_create(tmp_path / "p")
    (tmp_path / "p" / "curve.key").write_bytes(content)
    with pytest.raises(UnsafeKeyError, match="holds no key"):
        keys.load_or_create(tmp_path / "p")
    assert (tmp_path / "p" / "curve.key").read_bytes() == content


def test_link_in_place_of_the_key_is_refused(tmp_path: Path) -> None:
    keys.load_or_create(tmp_path / "p")
    key = tmp_path / "p" / "curve.key"
    key.rename(tmp_path / "elsewhere")
    key.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeKeyError):
        keys.load(tmp_path / "p")


def test_key_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeFolderError):
        keys.load_or_create(folder)


def test_promoted_key_pair_replaces_the_old_one(tmp_path: Path) -> None:
    keys.load_or_create(tmp_path / "p")
    following = keys.load_or_create(tmp_path / "p", "curve.next")
    assert keys.promote(tmp_path / "p", "curve.next") == following
    assert keys.load(tmp_path / "p") == following
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["curve.key", "curve.pub"]
    assert (tmp_path / "p" / "curve.pub").read_text().strip() == following.public


def test_token_proof_depends_on_token_keys_and_id() -> None:
    minion, master, other = keys.generate(), keys.generate(), keys.generate()
    proof = keys.token_proof("token", minion.public, master.public, "m1")
    digest = keys.token_digest("token")
    assert keys.proof_by_digest(digest, minion.public, master.public, "m1") == proof
    variants = {
        keys.token_proof("Token", minion.public, master.public, "m1"),
        keys.token_proof("token", other.public, master.public, "m1"),
        keys.token_proof("token", minion.public, other.public, "m1"),
        keys.token_proof("token", minion.public, master.public, "m2"),
        keys.token_proof("token", master.public, minion.public, "m1"),
    }
    assert len(variants | {proof}) == 6


def test_key_pairs_are_compared_by_value() -> None:
    assert KeyPair("a", "b") == KeyPair("a", "b")

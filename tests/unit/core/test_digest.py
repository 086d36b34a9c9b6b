from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys

import pytest

from catena.core.digest import hmac_sha256, same_digest, sha256


@pytest.mark.parametrize("size", [0, 1, 55, 56, 64, 65, 200_000])
def test_the_hash_is_the_standard_librarys(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert sha256(data[:size]).hexdigest() == hashlib.sha256(data[:size]).hexdigest()


@pytest.mark.parametrize("size", [0, 5, 32, 64, 65, 300])
def test_the_hmac_is_the_standard_librarys(size: int) -> None:
    key = b"k" * size
    assert hmac_sha256(key, b"text") == hmac.new(key, b"text", hashlib.sha256).digest()


def test_digests_are_compared_by_value() -> None:
    assert same_digest(b"aa", b"aa")
    assert not same_digest(b"aa", b"ab")


def test_it_does_not_load_openssl() -> None:
    code = "import sys, catena.core.digest; sys.exit('_hashlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

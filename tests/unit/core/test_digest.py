from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys

import pytest

from catena.core.digest import LARGE_BYTES, hex_of, hmac_sha256, same_digest, sha256


@pytest.mark.parametrize("size", [0, 1, 55, 56, 64, 65, 200_000])
def test_sha256_equals_that_of_the_standard_library(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert sha256(data[:size]).hexdigest() == hashlib.sha256(data[:size]).hexdigest()


@pytest.mark.parametrize("size", [0, LARGE_BYTES, LARGE_BYTES + 1])
def test_sha256_of_a_memoryview_of_any_size_is_correct(size: int) -> None:
    assert hex_of(memoryview(bytes(size))) == hashlib.sha256(bytes(size)).hexdigest()


@pytest.mark.parametrize("size", [0, 5, 32, 64, 65, 300])
def test_hmac_equals_that_of_the_standard_library(size: int) -> None:
    key = b"k" * size
    assert hmac_sha256(key, b"text") == hmac.new(key, b"text", hashlib.sha256).digest()


def test_digests_are_equal_when_their_bytes_are() -> None:
    assert same_digest(b"aa", b"aa")
    assert not same_digest(b"aa", b"ab")


@pytest.mark.parametrize("module", ["core.digest", "minion.daemon", "minion.worker.template"])
def test_long_running_process_does_not_load_openssl(module: str) -> None:
    code = f"import sys, catena.{module}; sys.exit('_hashlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Large pieces are kept while they come, then given back; other C libraries are left alone."""

from __future__ import annotations

import ctypes

import pytest

from catena.core import heap


class Library:
    """A C library that knows some calls."""

    def __init__(self, *names: str) -> None:
        self.called: list[tuple[object, ...]] = []
        for name in names:
            setattr(self, name, lambda *args, name=name: self.called.append((name, *args)))


def test_kept_memory_is_released_when_a_transfer_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library("mallopt", "malloc_trim")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with pytest.raises(KeyError), heap.large_kept():
        assert library.called == [
            ("mallopt", -3, heap.LARGE_BYTES),
            ("mallopt", -1, heap.FREE_BYTES),
        ]
        raise KeyError
    assert [call[:2] for call in library.called[2:4]] == [("mallopt", -3), ("mallopt", -1)]
    assert library.called[4][0] == "malloc_trim"


def test_c_library_without_mallopt_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with heap.large_kept():
        heap.keep_large()
    assert library.called == []

"""Free memory is returned to the system where the C library can do so."""

from __future__ import annotations

import ctypes
import gc
import platform

import pytest

from catena.master.process import heap


class Library:
    """A C library that knows some calls."""

    def __init__(self, *names: str) -> None:
        self.called: list[tuple[object, ...]] = []
        for name in names:
            setattr(self, name, lambda *args, name=name: self.called.append((name, *args)))


def test_threads_share_arenas_and_free_pages_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library("mallopt", "malloc_trim")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    heap.share_memory()
    heap.trim()
    assert library.called[0] == ("mallopt", -8, heap.ARENAS)
    assert [name for name, *_ in library.called] == ["mallopt"] * 3 + ["malloc_trim"]


def test_c_library_without_mallopt_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    heap.share_memory()
    heap.trim()
    assert library.called == []


def test_malloc_functions_exist_only_in_glibc() -> None:
    heap.trim()
    known = [hasattr(ctypes.CDLL(None), name) for name in ("mallopt", "malloc_trim")]
    assert known == [platform.libc_ver()[0] == "glibc"] * 2


def test_garbage_collection_is_rare_but_enabled() -> None:
    before = gc.get_threshold()
    try:
        heap.collect_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() == heap.GC_THRESHOLDS
    finally:
        gc.set_threshold(*before)

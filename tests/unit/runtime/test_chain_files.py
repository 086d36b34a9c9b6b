from __future__ import annotations

from catena.core.context import FileEntry
from catena.runtime import chain_files


def entry(path: str, size: int) -> FileEntry:
    return FileEntry(path, "a" * 64, size, 0o644)


def test_small_files_and_all_files_named_by_chunks_are_copied() -> None:
    entries = [
        entry("web/init.sls", 100),
        entry("iso/large", 2 * chain_files.SMALL),
        entry("iso/other", 2 * chain_files.SMALL),
    ]
    chunk = "    -   source: salt://iso/large\n"
    assert chain_files.wanted(entries, [chunk]) == ["iso/large", "web/init.sls"]


def test_small_files_are_copied_up_to_a_limit_smallest_first() -> None:
    count = chain_files.TOGETHER // chain_files.SMALL
    entries = [entry(f"f{n}", chain_files.SMALL) for n in range(count + 5)]
    found = chain_files.wanted([*entries, entry("tiny", 1)], [])
    assert found[0] == "tiny"
    assert len(found) == count

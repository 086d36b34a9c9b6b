"""Rows of the file server: a large file and a tree of small ones, from master to minion."""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path

from bench.equipment.fleet import Fleet
from bench.equipment.shared import on_both
from bench.errors import BenchError
from bench.lab import Lab
from bench.row import Row, Sample, Times

BIG_BYTES = 100 * 1024 * 1024
SMALL_FILES = 2000
#: Counter that gives every measurement new bytes, which no cache has.
_TURN = itertools.count(1)

_MANAGED = """{target}:
  file.managed:
    - source: salt://{source}
"""
_RECURSE = """{target}:
  file.recurse:
    - source: salt://{source}
"""


class _Share:
    """The files that the master serves for these rows, and their place on the minion."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.big = fleet.states / "big.bin"
        self.tree = fleet.states / "tree"
        self.file, self.folder = fleet.folder / "copy.bin", fleet.folder / "copy"
        # Salt's master caches file names for 20 s. The names therefore exist from the start, and
        # # only the contents change later.
        self._lay_tree(0)

    def new_big(self) -> None:
        """Serve a new large file, and remove the minion's copy."""
        block = bytes(range(256)) * 4096
        with self.big.open("wb") as stream:
            stream.write(b"%16d" % next(_TURN))
            for _ in range(BIG_BYTES // len(block)):
                stream.write(block)
        self.file.unlink(missing_ok=True)
        self._state("bench_big", _MANAGED.format(target=self.file, source="big.bin"))

    def new_tree(self) -> None:
        """Serve a tree of new small files, and remove the minion's copies."""
        self._lay_tree(next(_TURN))
        shutil.rmtree(self.folder, ignore_errors=True)
        self._state("bench_tree", _RECURSE.format(target=self.folder, source="tree"))

    def _lay_tree(self, turn: int) -> None:
        for number in range(SMALL_FILES):
            path = self.tree / f"d{number // 50:02d}" / f"f{number:04d}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{turn} {number}\n" * 40, encoding="utf-8")

    def _state(self, name: str, text: str) -> None:
        (self.fleet.states / f"{name}.sls").write_text(text, encoding="utf-8")

    def check_big(self) -> None:
        """Raise BenchError if the copy differs from the file."""
        if not _same(self.big, self.file):
            raise BenchError("the copy is not the file")

    def check_tree(self) -> None:
        """Raise BenchError if the copy differs from the tree."""
        files = [path for path in self.tree.rglob("*") if path.is_file()]
        copies = (self.folder / path.relative_to(self.tree) for path in files)
        if not all(_same(*pair) for pair in zip(files, copies, strict=True)):
            raise BenchError("the copy is not the tree")


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def _share(fleet: Fleet) -> _Share:
    return fleet.lab.once(f"share {fleet.folder}", lambda: _Share(fleet))


def _timed(share: _Share, function: str, *args: str) -> Sample:
    before = share.fleet.cpu()
    answer = share.fleet.client.ask(function, *args)
    if answer.minions != 1:
        raise BenchError(f"the minion did not do it: {answer.fault or 'no answer'}")
    return Sample(sum(answer.seconds), share.fleet.cpu() - before + answer.cpu)


def _got(fleet: Fleet) -> Sample:
    share = _share(fleet)
    share.new_big()
    found = _timed(share, "cp.get_file", "salt://big.bin", str(share.file))
    share.check_big()
    return found


def _managed(fleet: Fleet) -> Sample:
    share = _share(fleet)
    share.new_big()
    found = _timed(share, "state.apply", "bench_big")
    share.check_big()
    return found


def _first(fleet: Fleet) -> Sample:
    share = _share(fleet)
    share.new_tree()
    found = _timed(share, "state.apply", "bench_tree")
    share.check_tree()
    return found


def _again(fleet: Fleet) -> Sample:
    share = _share(fleet)
    if not share.folder.is_dir():
        _first(fleet)
    return _timed(share, "state.apply", "bench_tree")


def copy_floor(lab: Lab) -> Sample:
    """Read and write 100 MiB, as a plain copy does."""
    source, target = (lab.folder("copy") / name for name in ("from", "to"))
    if not source.exists():
        source.write_bytes(bytes(BIG_BYTES))
    target.unlink(missing_ok=True)
    begun, busy = time.monotonic(), time.process_time()
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 1024 * 1024)
    return Sample(time.monotonic() - begun, time.process_time() - busy)


ROWS = (
    Row(
        name="file-100m-get",
        title="100 MiB, `cp.get_file`, nothing cached",
        unit="s",
        tools={**on_both(_got), "floor": copy_floor},
        aim=Times(4),
        repeats=5,
        quick=1,
    ),
    Row(
        name="file-100m-managed",
        title="100 MiB, `file.managed`, nothing cached",
        unit="s",
        tools=on_both(_managed),
        aim=Times(4),
        repeats=5,
        quick=1,
    ),
    Row(
        name="recurse-2000-first",
        title="`file.recurse` of 2 000 small files, nothing cached",
        unit="s",
        tools=on_both(_first),
        aim=Times(12),
        repeats=3,
        quick=0,
        fewer={"salt": 1},
    ),
    Row(
        name="recurse-2000-again",
        title="`file.recurse` of the same 2 000 files again",
        unit="s",
        tools=on_both(_again),
        aim=Times(20),
        repeats=3,
        quick=0,
        fewer={"salt": 1},
    ),
)

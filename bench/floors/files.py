"""Write and rename, or read and compare, many small files with bare Python."""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: Path, count: int) -> int:
    """Write the wanted contents; return the number of changed files."""
    changed = 0
    for number in range(count):
        path, text = folder / f"f{number:04d}", f"line {number}\n"
        if path.exists() and path.read_text() == text:
            continue
        new = path.with_suffix(".new")
        new.write_text(text)
        new.rename(path)
        changed += 1
    return changed


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2])))

"""Recorded cases, packed: a family is a folder of JSON-lines files, one line per case.

Each topic of a family has a file. A line holds the name of a case and its files, path -> text; a
file that is no UTF-8 text is `{"base64": …}`. To look at a case, show it; to change it, unpack it,
edit its files and pack the folder:

    python -m tests.support.packs show tests/cases/salt cmd/script
    python -m tests.support.packs unpack tests/cases/salt FOLDER [cmd/script …]
    python -m tests.support.packs pack FOLDER tests/cases/salt

Packing adds the cases of FOLDER to the family, in the place of those of the same name.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

#: The files of a case: path -> content.
Files = Mapping[str, bytes]


def names(family: Path) -> list[str]:
    """Return the names (TOPIC/CASE) of all cases of *family*, sorted."""
    return sorted(f"{pack.stem}/{case}" for pack in family.glob("*.jsonl") for case in read(pack))


def files(family: Path, name: str) -> Files:
    """Return the files of one case.

    Raises:
        KeyError: the family has no such case.
    """
    topic, _, case = name.partition("/")
    return read(family / f"{topic}.jsonl")[case]


def read(pack: Path) -> dict[str, Files]:
    """Return the cases of a pack: name -> its files."""
    with pack.open(encoding="utf-8", newline="\n") as stream:
        lines = [json.loads(line) for line in stream]
    return {
        line["case"]: {path: _content(value) for path, value in line["files"].items()}
        for line in lines
    }


def write(pack: Path, cases: Mapping[str, Files]) -> None:
    """Write *cases* as the pack, sorted."""
    lines = [
        {"case": name, "files": {path: _value(data) for path, data in sorted(cases[name].items())}}
        for name in sorted(cases)
    ]
    pack.parent.mkdir(parents=True, exist_ok=True)
    pack.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8"
    )


def unpack(family: Path, folder: Path, wanted: Sequence[str] = ()) -> None:
    """Write the files of the *wanted* cases (all when none is named) below *folder*."""
    for name in wanted or names(family):
        for path, data in files(family, name).items():
            place = folder / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def pack_folder(folder: Path, family: Path) -> None:
    """Put the cases below *folder* (TOPIC/CASE/…) into the packs of *family*."""
    for topic in sorted(path for path in folder.iterdir() if path.is_dir()):
        pack = family / f"{topic.name}.jsonl"
        cases = read(pack) if pack.exists() else {}
        write(pack, cases | {case.name: dict(_tree(case)) for case in topic.iterdir()})


def _tree(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def _content(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


def _value(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _show(family: Path, name: str) -> None:
    for path, data in files(family, name).items():
        print(f"── {name}/{path}")
        print(data.decode("utf-8", "backslashreplace").rstrip("\n"))


def main(words: Sequence[str]) -> int:
    """Run the command of this module; return its exit status."""
    match words:
        case ["show", family, name]:
            _show(Path(family), name)
        case ["unpack", family, folder, *wanted]:
            unpack(Path(family), Path(folder), wanted)
        case ["pack", folder, family]:
            pack_folder(Path(folder), Path(family))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a failed removal suggests works when it is typed: `chattr` and `umount`."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.core.removal import CannotRemoveError, refusal, remove_entry

AROUND = "it's here"


def cure_of(text: str) -> str:
    return text.partition("first: ")[2]


def set_attribute(letter: str, path: Path) -> None:
    done = subprocess.run(["chattr", f"+{letter}", str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no such attributes here: {done.stderr}")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / AROUND
    folder.mkdir()
    yield folder / "the place"
    subprocess.run(["chattr", "-R", "-ia", str(tmp_path)], check=False, capture_output=True)


def made(place: Path, what: str) -> Path:
    """Make *what* at *place*; return the entry whose attribute is in the way."""
    if what == "file":
        place.write_text("x")
        return place
    if what in ("file in an attributed folder", "link in an attributed folder"):
        place.symlink_to("nowhere") if what.startswith("link") else place.write_text("x")
        return place.parent
    inside = place / "a folder" / "inside"
    inside.mkdir(parents=True)
    (place / "link").symlink_to("nowhere")
    os.mkfifo(place / "pipe")
    (inside / "file").write_text("x")
    return inside / "file" if what == "file in a folder" else inside


@pytest.mark.parametrize("letter", ["i", "a"])
@pytest.mark.parametrize(
    "what",
    [
        "file",
        "file in an attributed folder",
        "link in an attributed folder",
        "file in a folder",
        "folder in a folder",
    ],
)
def test_entry_with_an_attribute_is_removed_after_the_suggested_command(
    place: Path, what: str, letter: str
) -> None:
    set_attribute(letter, made(place, what))
    with pytest.raises(CannotRemoveError, match="Operation not permitted") as raised:
        remove_entry(place)
    # The shell runs every part, and the exit code of the last one counts.
    subprocess.run(cure_of(str(raised.value)), shell=True, check=True)
    remove_entry(place)
    assert not os.path.lexists(place)


def test_refusal_names_both_attributes_and_quotes_the_path(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    error = OSError(errno.EPERM, "Operation not permitted", f"{place}/inside")
    text = str(refusal("remove", place, error))
    assert f"{place}/inside: Operation not permitted" in text
    assert cure_of(text) == f"chattr -R -ia '{place}'; chattr -ia {tmp_path}"


MOUNTED = """
import os, subprocess, sys
from pathlib import Path
from catena.core.removal import CannotRemoveError, remove_entry

real, how = Path(sys.argv[1]), sys.argv[2]
real.mkdir(parents=True)
link = real.parent / "by link"
link.symlink_to(real.name)
kept = real.parent / "precious"
place = real / "the place"
if how == "file":
    kept.write_text("1")
    place.write_text("2")
    for _ in range(2):
        subprocess.run(["mount", "--bind", kept, place], check=True)
else:
    kept.mkdir()
    (kept / "below").mkdir()
    (kept / "inside").write_text("1")
    place.mkdir()
    subprocess.run(["mount", "--bind", kept, place], check=True)
    subprocess.run(["mount", "--bind", kept, place / "below"], check=True)
place = link / "the place"
for _ in range(2):
    try:
        remove_entry(place)
    except CannotRemoveError as error:
        subprocess.run(str(error).partition("first: ")[2], shell=True, check=True)
remove_entry(place)
print(os.path.lexists(place), kept.exists(), kept.is_file() or (kept / "inside").exists())
"""


@pytest.mark.parametrize("how", ["file", "folder"])
def test_mount_point_is_removed_after_the_suggested_commands(tmp_path: Path, how: str) -> None:
    command = ["unshare", "-m", sys.executable, "-c", MOUNTED, str(tmp_path / AROUND), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "True"]

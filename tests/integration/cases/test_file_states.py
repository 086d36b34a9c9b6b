"""File states return and leave the same as those of Salt 3008.5.

A line of tests/cases/file-states/*.jsonl is one case: states, the files that were there, and what
was recorded of a run in test mode, a run, and another run; @D@ is the case's own folder. All cases
are one SLS file, so that each run is one call. Where Salt's answer is a fault (a traceback, a file
that grows with each run, data lost), there is no case.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.salt_cases import forked

CASES = Path(__file__).parents[2] / "cases" / "file-states"
FAMILIES = sorted(path.stem for path in CASES.glob("*.jsonl"))
STEPS = ("test", "apply", "again")
#: Stands for the end of many comments.
_NOTE = "Note: No changes made, actual changes may\nbe different due to other states."
_FOLDER_NOTE = "The following files will be changed"

Case = Mapping[str, Any]


def cases(family: str) -> list[Case]:
    """Return the cases that this user may run: only root can give files away."""
    found = [json.loads(line) for line in (CASES / f"{family}.jsonl").read_text().splitlines()]
    return [case for case in found if os.geteuid() == 0 or not case.get("root")]


def place(root: Path, family: str, case: Case) -> Path:
    return root / family / str(case["case"])


def filled(value: Any, folder: Path) -> Any:
    """Put in a case's own folder and what its states are called."""
    text = json.dumps(value).replace("@NOTE@", json.dumps(_NOTE)[1:-1])
    text = text.replace("@ID@", named(folder))
    return json.loads(text.replace("@D@", str(folder)))


def named(folder: Path) -> str:
    """Return the beginning of the ids of a case's states."""
    return f"{folder.parent.name}.{folder.name}"


def prepare(folder: Path, setup: Mapping[str, Any]) -> None:
    """Make the files of a case: a text, or [kind or text, …] with modes, targets, owners."""
    folder.mkdir(parents=True)
    for name, given in setup.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind, *more = given if isinstance(given, list) else ("file", given, 0o644)
        if kind == "dir":
            path.mkdir(mode=more[0] if more else 0o755)
            path.chmod(more[0] if more else 0o755)
        elif kind == "link":
            path.symlink_to(filled(more[0], folder))
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.write_text(filled(more[0], folder))
            path.chmod(more[1])
            if kind == "own":
                os.chown(path, more[2], more[3])
            elif len(more) > 2:
                os.utime(path, (more[2], more[2]))


def left(folder: Path) -> dict[str, Any]:
    """Return what lies in a folder, in the form of the cases."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status, name = path.lstat(), str(path.relative_to(folder))
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        owner = [] if (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid()) else [
            status.st_uid, status.st_gid
        ]  # fmt: skip
        if path.is_symlink():
            found[name] = ["link", str(path.readlink())]
        elif path.is_dir():
            found[name] = [mode, *owner]
        elif path.is_file():
            found[name] = [mode, path.read_bytes().decode("utf-8", "replace"), *owner]
        else:
            found[name] = ["other", *owner]
    return found


def settled(row: list[Any]) -> list[Any]:
    """Return a row without the order in which Salt came upon the members of a folder."""
    result, changes, comment = row
    if isinstance(comment, str):
        if comment.startswith("#### "):
            comment = re.split(r"(?m)^(?=#### )", comment)
        elif comment.startswith(_FOLDER_NOTE):
            comment = comment.split("\n")
    if isinstance(comment, list):
        comment = sorted(text.strip() for text in comment if text.strip())
    if isinstance(changes.get("removed"), list):
        changes = {**changes, "removed": sorted(changes["removed"])}
    return [result, changes, comment]


def without_folders(row: list[Any]) -> list[Any]:
    """Of the folders that file.recurse makes Salt tells those that it met before their files."""
    new = [{"directory": "new"}]
    kept = {
        name: change
        for name, change in row[1].items()
        if not (isinstance(change, dict) and list(change.values()) == new)
    }
    return [row[0], kept, row[2]]


class Stage:
    """All cases as one SLS file, and the runs of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        served = json.loads((CASES / "served.json").read_text())
        for name, given in served["roots"].items():
            env, _, path = name.rpartition("@other/")
            self._serve(
                root / ("other" if env or name.startswith("@") else "states") / path, given
            )
        (root / "conf").mkdir()
        config = {
            "id": "m1",
            "file_client": "local",
            "root_dir": str(root / "root"),
            "file_roots": {"base": [str(root / "states")], "other": [str(root / "other")]},
            "grains": served["grains"],
        }
        (root / "conf" / "minion").write_text(yaml.safe_dump(config))
        self.pillar = json.dumps(served["pillar"])
        states = {}
        for family in FAMILIES:
            for case in cases(family):
                folder = place(root, family, case)
                prepare(folder, case.get("setup", {}))
                for number, (name, given) in enumerate(filled(case["states"], folder)):
                    arguments = {"name": f"{folder}/f", **given}
                    states[f"{named(folder)}-{number}"] = {
                        name: [{key: value} for key, value in arguments.items()]
                    }
        (root / "states" / "all.sls").write_text("#!json\n" + json.dumps(states))
        self.rows = {step: self._run(step) for step in STEPS}

    def _serve(self, path: Path, given: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        kind, *more = given if isinstance(given, list) else (given, 0o644)
        if kind == "dir":
            path.mkdir(exist_ok=True)
        elif kind == "link":
            path.symlink_to(str(more[0]))
        else:
            path.write_text(kind)
            path.chmod(int(more[0]))

    def _run(self, step: str) -> dict[str, Any]:
        words = ["call", "--local", "--config-dir", str(self.root / "conf"), "--out", "json"]
        words += ["state.apply", "all", f"pillar={self.pillar}", f"test={step == 'test'}"]
        plain = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "SHELL": "/bin/sh"}
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.root), **plain}
        _, out, err = forked(words, env, self.root)
        assert out, err
        rows = json.loads(out)["local"]
        assert isinstance(rows, dict), rows
        return {row["__id__"]: row for row in rows.values()}

    def differences(self, family: str, case: Case) -> Iterator[str]:
        """Yield how a case came out otherwise than recorded."""
        folder = place(self.root, family, case)
        for step in STEPS:
            for number, recorded in enumerate(case[step]):
                row = self.rows[step][f"{named(folder)}-{number}"]
                found = settled([row["result"], row["changes"], row["comment"]])
                wanted = settled(filled(recorded, folder))
                if family == "recurse":
                    found, wanted = without_folders(found), without_folders(wanted)
                if found != wanted:
                    yield f"{case['case']} {step}: {found}, not {wanted}"
        files, wanted_files = left(folder), filled(case["left"], folder)
        if files != wanted_files:
            yield f"{case['case']}: left {files}, not {wanted_files}"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    mask = os.umask(0o022)
    try:
        yield Stage(tmp_path_factory.mktemp("states"))
    finally:
        os.umask(mask)


@pytest.mark.parametrize("family", FAMILIES)
def test_file_states_answer_as_recorded_from_salt(stage: Stage, family: str) -> None:
    assert [text for case in cases(family) for text in stage.differences(family, case)] == []

from __future__ import annotations

import base64
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult


def run(context: Context, fun: str, name: Path, /, **options: Any) -> StateResult:
    result: StateResult = context.states[f"file.{fun}"].call(context, str(name), **options)
    return result


def test_base64_content_is_decoded_once(context: Context, tmp_path: Path) -> None:
    text = base64.b64encode(b"\0data").decode()
    assert run(context, "decode", tmp_path / "f", encoded_data=text).changes["old"] is None
    assert (tmp_path / "f").read_bytes() == b"\0data"
    assert run(context, "decode", tmp_path / "f", encoded_data=text).changes == {}
    assert run(context, "decode", tmp_path / "f", encoded_data="?").result is False


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
def test_patch_is_applied_once(context: Context, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n")
    target = tmp_path / "f"
    target.write_text("old\n")
    source = str(tmp_path / "p")
    assert run(context.with_(test=True), "patch", target, source=source).result is None
    assert run(context, "patch", target, source=source).changes
    assert target.read_text() == "new\n"
    assert run(context, "patch", target, source=source).comment == "Patch was already applied"
    target.write_text("other\n")
    assert run(context, "patch", target, source=source).result is False
    assert target.read_text() == "other\n"


def test_tidied_removes_old_files_and_keeps_new_ones(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "empty").mkdir(parents=True)
    for name, days in (("old.log", 9), ("young.log", 1), ("old.txt", 9)):
        (folder / name).write_text("x")
        when = time.time() - days * 86400
        os.utime(folder / name, (when, when))
    given: dict[str, Any] = {"age": 7, "matches": [r".*\.log"]}
    planned = run(context.with_(test=True), "tidied", folder, **given)
    assert (planned.result, (folder / "old.log").exists()) == (None, True)
    assert run(context, "tidied", folder, **given).changes == {
        "removed": [str(folder / "old.log")]
    }
    assert run(context, "tidied", folder, **given).changes == {}
    assert run(context, "tidied", folder, age=7, rmdirs=True).changes == {
        "removed": [str(folder / "old.txt"), str(folder / "empty")]
    }


def test_named_pipe_is_created_once(context: Context, tmp_path: Path) -> None:
    assert run(context, "mknod", tmp_path / "p", ntype="p", mode="0640").changes
    assert (tmp_path / "p").is_fifo()
    assert run(context, "mknod", tmp_path / "p", ntype="p", mode="0640").changes == {}
    assert run(context, "mknod", tmp_path / "p", ntype="c").result is False


def test_function_of_a_python_file_can_be_called(context: Context) -> None:
    call = context.states["cmd.call"].call
    assert call(context, "n", func=lambda x: x + 1, args=(1,)).changes == {"retval": 2}
    assert call(context, "n", func=lambda: False).result is False
    assert call(context, "n", func="os.system").result is False

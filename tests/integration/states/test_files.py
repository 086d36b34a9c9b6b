from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.types import StateResult
from catena.states import file
from catena.states.compiler.call import REQUIRED


def run(context: Context, fun: str, name: Path, /, **kwargs: Any) -> StateResult:
    result: StateResult = context.states[f"file.{fun}"].call(context, str(name), **kwargs)
    return result


def test_managed_file_is_written_once(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    planned = run(context.with_(test=True), "managed", path, contents="a\nb")
    assert (planned.result, planned.changes) == (None, {"newfile": str(path)})
    assert not path.exists()
    assert run(context, "managed", path, contents="a\nb", mode="0640").changes == {
        "diff": "New file",
        "mode": "0640",
    }
    before = path.stat()
    again = run(context, "managed", path, contents="a\nb", mode=640)
    assert (again.result, again.changes) == (True, {})
    assert path.stat() == before


def test_changed_file_keeps_its_mode_and_shows_its_diff(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old\n")
    path.chmod(0o640)
    result = run(context, "managed", path, contents="new")
    assert result.changes == {"diff": "--- \n+++ \n@@ -1 +1 @@\n-old\n+new\n"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_diff_of_a_secret_file_is_hidden(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("was\n")
    result = run(context, "managed", path, contents="hunter2", show_changes=False)
    assert "hunter2" not in str(result)


def test_template_receives_the_context_of_its_state(
    context: Context, tmp_path: Path, roots: Path
) -> None:
    (roots / "t").write_text("{{ word }} {{ grains['id'] }} {{ source }}\n")
    result = run(
        context, "managed", tmp_path / "f", source="salt://t", template="jinja",
        context={"word": "hi"},
    )  # fmt: skip
    assert result.result is True, result.comment
    assert (tmp_path / "f").read_text() == "hi minion salt://t\n"


def test_check_cmd_prevents_invalid_content(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("good\n")
    result = run(context, "managed", path, contents="bad", check_cmd="grep -q good")
    assert (result.result, path.read_text()) == (False, "good\n")


def test_managed_file_behind_a_link_is_written_through_it(
    context: Context, tmp_path: Path
) -> None:
    (tmp_path / "real").write_text("x\n")
    (tmp_path / "link").symlink_to("real")
    run(context, "managed", tmp_path / "link", contents="y")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "y\n"


def test_missing_source_or_parent_fails(context: Context, tmp_path: Path) -> None:
    missing = run(context, "managed", tmp_path / "f", source="salt://no")
    assert missing.result is False
    assert "Source file salt://no not found" in missing.comment
    assert run(context, "managed", tmp_path / "q/f", contents="x").comment == (
        "Parent directory not present"
    )


def test_backup_is_kept_and_restored(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old\n")
    run(context, "managed", path, contents="new", backup="minion")
    assert context.call("file.list_backups", str(path))[0]["Size"] == 4
    context.call("file.restore_backup", str(path), 0)
    assert path.read_text() == "old\n"


def test_clean_keeps_what_a_required_state_manages(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "sub").mkdir(parents=True)
    for name in ("junk", "keepme", "sub/junk"):
        (folder / name).write_text("x")
    run(context, "managed", folder / "deep/managed", contents="m", makedirs=True)
    required = [{"state": "file", "fun": "managed", "name": str(folder / "deep/managed")}]
    wanted: dict[str, Any] = {"clean": True, "exclude_pat": "keep*", REQUIRED: required}
    result = run(context, "directory", folder, **wanted)
    assert set(result.changes["removed"]) == {str(folder / "junk"), str(folder / "sub")}
    left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
    assert left == ["deep", "deep/managed", "keepme"]


def test_directory_modes_are_applied_recursively(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "s").mkdir(parents=True)
    (folder / "s/f").write_text("x")
    wanted = {"dir_mode": "0700", "file_mode": "0600", "recurse": ["mode"]}
    assert run(context, "directory", folder, **wanted).result is True
    assert (folder / "s/f").stat().st_mode & 0o777 == 0o600
    assert run(context, "directory", folder, **wanted).changes == {}


def test_recurse_copies_a_tree_and_cleans_the_target(
    context: Context, tmp_path: Path, roots: Path
) -> None:
    (roots / "tree/sub").mkdir(parents=True)
    (roots / "tree/a.conf").write_text("a\n")
    (roots / "tree/sub/c.conf").write_text("c\n")
    target = tmp_path / "t"
    assert run(context, "recurse", target, source="salt://tree").result is True
    (target / "stray").write_text("x")
    assert run(context, "recurse", target, source="salt://tree").changes == {}
    cleaned = run(context, "recurse", target, source="salt://tree", clean=True)
    assert cleaned.changes == {"removed": [str(target / "stray")]}
    assert (target / "sub/c.conf").read_text() == "c\n"


def test_symlink_replaces_a_link_and_a_file_only_with_force(
    context: Context, tmp_path: Path
) -> None:
    link, occupied = tmp_path / "l", tmp_path / "o"
    link.symlink_to("elsewhere")
    occupied.write_text("mine")
    assert run(context, "symlink", link, target="here").changes == {"new": str(link)}
    assert str(link.readlink()) == "here"
    assert run(context, "symlink", occupied, target="here").result is False
    assert occupied.read_text() == "mine"
    assert run(context, "symlink", occupied, target="here", force=True).result is True


def test_absent_removes_files_and_refuses_system_folders(context: Context, tmp_path: Path) -> None:
    (tmp_path / "d/x").mkdir(parents=True)
    assert run(context, "absent", tmp_path / "d").changes == {"removed": str(tmp_path / "d")}
    assert run(context, "absent", tmp_path / "d").changes == {}
    assert run(context, "absent", Path("/")).result is False
    assert run(context, "absent", Path("/etc/")).result is False
    with pytest.raises(CommandExecutionError):
        context.call("file.remove", "/usr")


def test_append_adds_each_line_once(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ntwo")
    assert run(context, "append", path, text=["one", "three"]).comment == "Appended 1 lines"
    assert path.read_text() == "one\ntwo\nthree\n"
    assert run(context, "append", path, text=["one", "three"]).changes == {}


def test_serialize_with_merge_keeps_existing_data(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text('{"n": {"a": 1}}')
    given = {"dataset": {"n": {"b": 2}}, "serializer": "json", "merge_if_exists": True}
    assert run(context, "serialize", path, **given).changes == {
        "diff": {"n": {"b": {"old": "<_null_>", "new": 2}}}
    }
    assert run(context, "serialize", path, **given).changes == {}


def test_copy_and_rename_are_idempotent(context: Context, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("x")
    assert run(context, "copy", tmp_path / "c", source=str(tmp_path / "s")).changes
    assert not run(context, "copy", tmp_path / "c", source=str(tmp_path / "s")).changes
    assert run(context, "rename", tmp_path / "m", source=str(tmp_path / "s")).changes
    assert run(context, "rename", tmp_path / "m", source=str(tmp_path / "s")).result is True


def test_likely_typo_of_an_argument_is_a_warning(context: Context, tmp_path: Path) -> None:
    result = run(context, "managed", tmp_path / "f", contents="x", makedir=True)
    assert "did you mean 'makedirs'" in result.warnings[0]


def test_find_combines_all_conditions(context: Context, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/big.log").write_text("x" * 2048)
    (tmp_path / "small.log").write_text("error\n")
    found = context.call("file.find", str(tmp_path), type="f", name="*.log", size="+1k")
    assert found == [str(tmp_path / "d/big.log")]
    assert context.call("file.find", str(tmp_path), grep="^error", print="name") == ["small.log"]


def test_every_state_of_files_is_callable_by_name(context: Context) -> None:
    assert {f"file.{name.rstrip('_')}" for name in file.__all__} <= set(
        context.states.module("file")
    )


def test_every_indexed_module_loads_and_documents_itself(context: Context) -> None:
    lacking = [name for name, text in context.call("sys.doc").items() if not text]
    assert lacking == []
    assert context.call("sys.argspec", "system.reboot")["system.reboot"]["args"] == ["at_time"]

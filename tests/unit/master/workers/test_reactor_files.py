"""Reactor files in a worker: what was made ready before one came changes nothing of its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.errors import NotFoundError, RenderError
from catena.master.workers.reactor_files import ReactorFiles

FILE = """\
{% from 'names.jinja' import target with context %}
go:
  local.test.arg:
    - tgt: {{ target }}
    - arg: [{{ data['n'] }}]
"""


@pytest.fixture
def files(tmp_path: Path) -> ReactorFiles:
    (tmp_path / "go.sls").write_text(FILE)
    (tmp_path / "names.jinja").write_text("{% set target = 'web1' %}")
    roots = {"base": [str(tmp_path)]}
    return ReactorFiles(MasterSettings(file_roots=roots, cache_dir=str(tmp_path / "cache")))


def ask(files: ReactorFiles, number: int, file: str = "salt://go.sls") -> dict[str, Any]:
    (reaction,) = files.reactions({"file": file, "tag": "a", "data": {"n": number}})
    return reaction


def test_one_that_came_after_another_is_rendered_as_the_first(files: ReactorFiles) -> None:
    first = ask(files, 1)
    files.make_ready()
    files.make_ready()
    second = ask(files, 2)
    assert (first["tgt"], first["args"]) == ("web1", [1])
    assert second == {**first, "args": [2]}


def test_files_that_changed_while_it_was_ready_are_read_as_they_are(
    files: ReactorFiles, tmp_path: Path
) -> None:
    ask(files, 1)
    files.make_ready()
    (tmp_path / "names.jinja").write_text("{% set target = 'web2' %}")
    (tmp_path / "new.sls").write_text(FILE.replace("go:", "new:"))
    assert ask(files, 2)["tgt"] == "web2"
    files.make_ready()
    assert ask(files, 3, "salt://new.sls")["id"] == "new"


def test_a_broken_one_leaves_nothing_behind(files: ReactorFiles, tmp_path: Path) -> None:
    (tmp_path / "broken.sls").write_text("go: {{ nowhere }}\n")
    files.make_ready()
    with pytest.raises(RenderError, match="nowhere"):
        ask(files, 1, str(tmp_path / "broken.sls"))
    with pytest.raises(NotFoundError, match="no such reactor file"):
        ask(files, 1, str(tmp_path / "missing.sls"))
    assert ask(files, 2)["args"] == [2]


def test_where_nothing_can_be_made_ready_the_next_file_is_rendered_all_the_same(
    files: ReactorFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ReactorFiles, "_context", _refuse)
        files.make_ready()
    assert ask(files, 1)["tgt"] == "web1"


def _refuse(_files: ReactorFiles) -> None:
    raise OSError("no room")

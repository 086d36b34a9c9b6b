"""logrotate.set with files in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.states import logrotate
from tests.unit.states.conftest import MakeWorld

MAIN = "# kept\nweekly\nrotate 4\ncreate\ninclude {folder}/d\n"
WEB = """\
/var/log/web/*.log
/var/log/web/old.log
{
\trotate 7
\tcreate 0640 root adm
\tpostrotate
\t\trotate 9 {
\tendscript
}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "web").write_text(WEB)
    (tmp_path / "d" / "web.dpkg-old").write_text("broken {")
    path = tmp_path / "logrotate.conf"
    path.write_text(MAIN.format(folder=tmp_path))
    return path


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def ask(context: Context, config: Path, key: str, value: Any, setting: Any = None) -> Any:
    return logrotate.set_(context, "x", key, value, setting, str(config))


def test_command_is_set_once_in_its_place(config: Path, context: Context) -> None:
    before = config.read_text()
    tried = ask(context.with_(test=True), config, "rotate", "2")
    assert (tried.result, dict(tried.changes)) == (None, {"old": 4, "new": 2})
    assert tried.comment == "Command 'rotate' will be set to value: 2"
    assert config.read_text() == before
    found = ask(context, config, "rotate", "2")
    assert (found.result, found.comment) == (True, "Set command 'rotate' value: 2")
    assert config.read_text() == before.replace("rotate 4", "rotate 2")
    again = ask(context, config, "rotate", 2)
    assert (again.result, dict(again.changes)) == (True, {})
    assert again.comment == "Command 'rotate' already has value: 2"


def test_command_in_a_block_of_an_included_file_is_set_there(
    config: Path, context: Context
) -> None:
    main = config.read_text()
    found = ask(context, config, "/var/log/web/old.log", "rotate", setting="3")
    assert found.comment == "Set block '/var/log/web/old.log' command 'rotate' value: 3"
    assert ask(context, config, "/var/log/web/*.log", "rotate", setting=3).changes == {}
    ask(context, config, "/var/log/web/*.log", "missingok", setting=True)
    wanted = WEB.replace("rotate 7", "rotate 3").replace(
        "\tendscript\n", "\tendscript\n\tmissingok\n"
    )
    assert (config.parent / "d" / "web").read_text() == wanted
    assert config.read_text() == main


def test_new_command_and_new_block_are_added(config: Path, context: Context) -> None:
    before = config.read_text()
    ask(context, config, "compress", True)
    ask(context, config, "/var/log/new", "rotate", setting=5)
    block = "/var/log/new {\n    rotate 5\n}\n"
    assert config.read_text() == f"compress\n{before}{block}"
    assert ask(context, config, "/var/log/new", "rotate", setting="5").changes == {}
    ask(context, config, "compress", value=False)
    assert config.read_text() == f"{before}{block}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/var/log/web/*.log", "rotate 1"), "is a block"),
        (("rotate\nmail x", 1), "can't be in a line"),
    ],
)
def test_bad_input_fails(config: Path, context: Context, words: Any, told: str) -> None:
    before = config.read_text()
    found = ask(context, config, *words)
    assert found.result is False
    assert told in found.comment
    assert config.read_text() == before


def test_block_without_an_end_fails(config: Path, context: Context) -> None:
    config.write_text("/var/log/x {\n")
    found = ask(context, config, "rotate", 1)
    assert found.result is False
    assert "has no end" in found.comment
    config.unlink()
    assert "cannot read" in ask(context, config, "rotate", 1).comment

"""debconf.* with databases in a folder and a double of debconf-set-selections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import RenderError
from catena.core.plugins import FunctionMark, Registry
from catena.core.redact import MASK
from catena.modules import debconf as module
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import debconf
from tests.unit.states.conftest import MakeWorld

TEMPLATES = """Name: mail/name
Default: x
Description: Name:
 a: b
Type: string

Name: mail/enable
Type: boolean

Name: mail/secret
Type: password

Name: mail/intro
Type: text
"""
VALUES = """Name: mail/name
Template: mail/name
Value: old name
Owners: mail, other
Flags: seen
Variables:
 Value = none

Name: mail/enable
Template: mail/enable
Owners: mail

Name: mail/intro
Template: mail/intro
Owners: mail
"""


class Debconf:
    """The databases, which debconf-set-selections changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        (folder / "templates.dat").write_text(TEMPLATES)
        (folder / "config.dat").write_text(VALUES)

    def look(self, context: Any, words: list[str], package: str, **options: Any) -> Ran:
        assert (words, package) == (["debconf-set-selections"], "debconf")
        for line in options["stdin"].splitlines():
            self.lines.append(line)
            owner, question, kind, value = line.split(None, 3)
            if value == "refused":
                return Ran(1, 1, "", f"error: {value}")
            name = "passwords.dat" if kind == "password" else "config.dat"
            path = self.folder / name
            blocks = path.read_text().split("\n\n") if path.exists() else []
            kept = [one for one in blocks if f"Name: {question}\n" not in one]
            new = f"Name: {question}\nTemplate: {question}\nValue: {value}\nOwners: {owner}\n"
            path.write_text("\n\n".join([*kept, new]))
        return Ran(1, 0, "", "")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debconf:
    folder = tmp_path / "debconf"
    folder.mkdir()
    made = Debconf(folder)
    monkeypatch.setattr(module, "_FOLDER", folder)
    monkeypatch.setattr(programs, "look", made.look)
    return made


@pytest.fixture
def context(world: MakeWorld) -> Context:
    made = world(files={"mail.selections": "mail mail/name string from file\n"}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


DATA = {
    "mail/name": {"type": "string", "value": "new name"},
    "mail/enable": {"type": "boolean", "value": True},
    "mail/secret": {"type": "password", "value": "s3cret"},
}


def test_answers_are_set_once(tool: Debconf, context: Context) -> None:
    found = debconf.set_(context, "mail", DATA)
    assert found.changes == {"mail/name": "new name", "mail/enable": "true", "mail/secret": MASK}
    assert tool.lines == [
        "mail mail/name string new name",
        "mail mail/enable boolean true",
        "mail mail/secret password s3cret",
    ]
    again = debconf.set_(context, "mail", DATA)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "All specified answers are already set"
    assert len(tool.lines) == 3
    assert "s3cret" not in repr((found, again, context.call("debconf.show", "mail")))


def test_test_mode_reports_and_sets_nothing(tool: Debconf, context: Context) -> None:
    data = {**DATA, "mail/name": {"type": "string", "value": "old name"}}
    found = debconf.set_(context.with_(test=True), "mail", data)
    assert found.result is None
    assert found.comment == "Unchanged answers: mail/name "
    assert found.changes == {
        "mail/enable": "New value: true",
        "mail/secret": f"New value: {MASK}",
    }
    assert debconf.set_file(context.with_(test=True), "n", "salt://mail.selections").result is None
    assert tool.lines == []


def test_answers_are_read_by_package(tool: Debconf, context: Context) -> None:
    rows = [["mail/name", "string", "old name"], ["mail/enable", "boolean", ""]]
    assert context.call("debconf.show", "mail") == rows
    assert context.call("debconf.show", "none") is None
    assert context.call("debconf.get_selections", fetchempty=False) == {
        "mail": rows[:1],
        "other": rows[:1],
    }


def test_template_of_answers_is_rendered(tool: Debconf, world: MakeWorld) -> None:
    text = "{% for name in names %}mail mail/{{ name }} string {{ value }}\n{% endfor %}"
    made = world(files={"mail.jinja": text}).context
    context = made.with_(functions=Registry("function", modules.INDEX, FunctionMark))
    call = ("debconf.set_template", "salt://mail.jinja", "jinja")
    given = {"names": ["name", "other"], "value": "v"}
    assert context.call(*call, context={"value": "w"}, defaults=given) is True
    assert tool.lines == ["mail mail/name string w", "mail mail/other string w"]
    assert context.call(*call, given) is True
    assert tool.lines[2:] == ["mail mail/name string v", "mail mail/other string v"]
    with pytest.raises(RenderError, match=r"salt://mail\.jinja"):
        context.call(*call)
    assert context.call("debconf.set_template", "salt://none", "jinja") is False


def test_file_of_answers_is_passed_on(tool: Debconf, context: Context) -> None:
    found = debconf.set_file(context, "n", "salt://mail.selections")
    assert (found.result, found.comment) == (True, "Debconf selections were set.")
    assert tool.lines == ["mail mail/name string from file"]
    missing = debconf.set_file(context, "n", "salt://none")
    assert missing.result is False
    assert missing.comment == "Unable to set debconf selections from file."


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"mail/name": "x"}, "mail/name needs a type and a value"),
        ({"mail/name": {"type": "string"}}, "mail/name needs a type and a value"),
        ("text", "expected a mapping"),
        ({"mail/name": {"type": "string", "value": "a\nb c string d"}}, "must be one line"),
        ({"a b": {"type": "string", "value": "x"}}, "'a b' can't be a package, question or type"),
    ],
)
def test_bad_input_fails_and_sets_nothing(
    tool: Debconf, context: Context, data: Any, told: str
) -> None:
    found = debconf.set_(context, "mail", data)
    assert found.result is False
    assert told in found.comment
    assert tool.lines == []


def test_refused_answer_fails_and_is_not_shown(tool: Debconf, context: Context) -> None:
    data = {"mail/secret": {"type": "password", "value": "refused"}}
    found = debconf.set_(context, "mail", data)
    assert found.changes == {"mail/secret": "Failed to set!"}
    assert "failed with return code 1" in found.comment
    assert "error: refused" not in found.comment


def test_host_without_debconf_is_an_error(tool: Debconf, context: Context) -> None:
    (tool.folder / "templates.dat").unlink()
    found = debconf.set_(context, "mail", DATA)
    assert found.result is False
    assert "install the package debconf" in found.comment

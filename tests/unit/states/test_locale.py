"""locale.* with the system's files in a folder and doubles of its programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.modules import locale as module
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import locale
from tests.unit.states.conftest import MakeWorld


class System:
    """The files of a Debian or Red Hat system, and its programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[list[str]] = []
        self.locales = ["C", "C.utf8", "POSIX"]
        self.answer = 0
        for name, text in (
            ("SUPPORTED", "de_DE ISO-8859-1\nde_DE.UTF-8 UTF-8\nen_US.UTF-8 UTF-8\n"),
            ("locale.gen", "# a comment\n# de_DE.UTF-8 UTF-8\n"),
            ("definitions/de_DE", ""),
            ("default", "LC_TIME=C\n"),
        ):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def look(self, context: Any, words: list[str], package: str, **options: Any) -> Ran:
        self.calls.append(words)
        if not self.answer:
            self.locales.append("de_DE.utf8")
        return Ran(1, self.answer, "", "")

    def run(self, context: Any, words: list[str], options: Any) -> Ran:
        assert words == ["locale", "-a"]
        return Ran(1, 0, "\n".join(self.locales), "")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    folder = tmp_path / "system"
    folder.mkdir()
    made = System(folder)
    monkeypatch.setattr(module, "_SUPPORTED", folder / "SUPPORTED")
    monkeypatch.setattr(module, "_WANTED", folder / "locale.gen")
    monkeypatch.setattr(module, "_DEFINITIONS", folder / "definitions")
    monkeypatch.setattr(module, "_FILES", (str(folder / "conf"), str(folder / "default")))
    monkeypatch.setattr(module, "run", made.run)
    monkeypatch.setattr(programs, "look", made.look)
    return made


def of_family(world: MakeWorld, family: str) -> Context:
    made = world(grains={"os_family": family, "os": family}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return of_family(world, "Debian")


def seen(system: System) -> Any:
    return {path.name: path.read_bytes() for path in system.folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["de_DE.UTF-8", "de_DE.UTF-8 UTF-8"])
def test_locale_is_generated_once(system: System, context: Context, name: str) -> None:
    found = locale.present(context, name)
    assert (found.comment, found.changes) == (f"Generated locale {name}", {"locale": name})
    assert (system.folder / "locale.gen").read_text() == "# a comment\nde_DE.UTF-8 UTF-8\n"
    again = locale.present(context, name)
    assert (again.result, again.changes) == (True, {})
    assert system.calls == [["locale-gen"]]


def test_locale_of_another_family_is_made_by_localedef(system: System, world: MakeWorld) -> None:
    assert locale.present(of_family(world, "RedHat"), "de_DE.UTF-8").result is True
    words = ["localedef", "--force", "-i", "de_DE", "-f", "UTF-8", "--quiet", "de_DE.UTF-8"]
    assert system.calls == [words]


def test_lang_is_set_once(system: System, context: Context) -> None:
    found = locale.system(context, "de_DE.UTF-8")
    assert found.comment == "Set system locale de_DE.UTF-8"
    assert found.changes == {"locale": "de_DE.UTF-8"}
    assert (system.folder / "default").read_text() == "LC_TIME=C\nLANG=de_DE.UTF-8\n"
    assert not (system.folder / "conf").exists()
    before = seen(system)
    again = locale.system(context, "de_DE.UTF-8")
    assert (again.result, again.changes) == (True, {})
    assert seen(system) == before


def test_lang_is_set_in_every_file_that_has_it(system: System, context: Context) -> None:
    (system.folder / "conf").write_text("# kept\nLANG=C\nLC_ALL=C\n")
    locale.system(context, "de_DE.UTF-8")
    assert (system.folder / "conf").read_text() == "# kept\nLANG=de_DE.UTF-8\nLC_ALL=C\n"
    assert context.call("locale.get_locale") == "de_DE.UTF-8"


def test_test_mode_reports_and_writes_nothing(system: System, context: Context) -> None:
    before = seen(system)
    context = context.with_(test=True)
    found = locale.present(context, "de_DE.UTF-8")
    assert (found.result, found.comment) == (None, "Locale de_DE.UTF-8 needs to be generated")
    found = locale.system(context, "de_DE.UTF-8")
    assert (found.result, found.comment) == (None, "System locale de_DE.UTF-8 needs to be set")
    assert seen(system) == before
    assert system.calls == []


@pytest.mark.parametrize("name", ["xx_XX.UTF-8", "de_DE.UTF-8 KOI8-R"])
def test_unknown_locale_fails(system: System, context: Context, name: str) -> None:
    before = seen(system)
    if " " not in name:
        assert locale.present(context, name).comment == "Failed to generate system locale"
    assert context.call("locale.gen_locale", name) is False
    assert seen(system) == before


def test_failing_program_fails_the_state(system: System, context: Context) -> None:
    system.answer = 1
    assert locale.present(context, "de_DE.UTF-8").result is False
    shown = context.call("locale.gen_locale", "de_DE.UTF-8", verbose=True)
    assert shown["retcode"] == 1


@pytest.mark.parametrize("name", ["a\nLC_ALL=x", "--help", "", "a/../b"])
def test_names_that_are_none_are_refused(system: System, context: Context, name: str) -> None:
    before = seen(system)
    for state in (locale.present, locale.system):
        found = state(context, name)
        assert found.result is False
        assert "can't be the name of a locale" in found.comment
    assert seen(system) == before


def test_missing_definitions_name_their_package(system: System, world: MakeWorld) -> None:
    (system.folder / "SUPPORTED").unlink()
    found = locale.present(of_family(world, "Debian"), "de_DE.UTF-8")
    assert "install the package locales" in found.comment
    (system.folder / "definitions" / "de_DE").unlink()
    (system.folder / "definitions").rmdir()
    found = locale.present(of_family(world, "RedHat"), "de_DE.UTF-8")
    assert "install the package glibc-locale-source" in found.comment

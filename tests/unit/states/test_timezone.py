"""timezone.system with the system's files in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.modules import timezone as module
from catena.states import timezone
from tests.unit.states.conftest import MakeWorld


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    zones = tmp_path / "zones"
    (zones / "Europe").mkdir(parents=True)
    (zones / "Europe" / "Berlin").write_bytes(b"TZif-berlin")
    (zones / "UTC").write_bytes(b"TZif-utc")
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "localtime").symlink_to(zones / "UTC")
    (folder / "timezone").write_text("UTC\n")
    (folder / "adjtime").write_text("1.5 3 0.0\n3\nLOCAL\n")
    monkeypatch.setattr(module, "ZONES", zones)
    monkeypatch.setattr(module, "LOCALTIME", folder / "localtime")
    monkeypatch.setattr(module, "NAME_FILE", folder / "timezone")
    monkeypatch.setattr(module, "ADJTIME", folder / "adjtime")
    monkeypatch.setattr(module, "_SYSTEMD", folder / "systemd")
    return folder


@pytest.fixture
def context(world: MakeWorld) -> Context:
    from catena import modules
    from catena.core.plugins import FunctionMark, Registry

    functions = Registry("function", modules.INDEX, FunctionMark)
    return world().context.with_(functions=functions)


def seen(folder: Path) -> Any:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_zone_and_clock_are_set_once(etc: Path, context: Context) -> None:
    found = timezone.system(context, "Europe/Berlin")
    assert found.comment == "Set timezone Europe/Berlin, Set UTC to True"
    assert found.changes == {"timezone": "Europe/Berlin", "utc": True}
    assert (etc / "timezone").read_text() == "Europe/Berlin\n"
    assert (etc / "adjtime").read_text() == "1.5 3 0.0\n3\nUTC\n"
    before = seen(etc)
    again = timezone.system(context, "Europe/Berlin")
    assert (again.result, again.changes) == (True, {})
    told = "Timezone Europe/Berlin already set, UTC already set to Europe/Berlin"
    assert again.comment == told
    assert seen(etc) == before


def test_test_mode_reports_and_writes_nothing(etc: Path, context: Context) -> None:
    before = seen(etc)
    found = timezone.system(context.with_(test=True), "Europe/Berlin")
    assert (found.result, found.changes) == (None, {})
    told = "Timezone Europe/Berlin needs to be set, UTC needs to be set to True"
    assert found.comment == told
    assert seen(etc) == before


def test_clock_is_left_unchanged_without_utc(etc: Path, context: Context) -> None:
    assert timezone.system(context, "UTC", utc=False).comment == "Timezone UTC already set"
    assert (etc / "adjtime").read_text().endswith("LOCAL\n")


def test_clock_alone_is_set_when_the_zone_is_right(etc: Path, context: Context) -> None:
    (etc / "adjtime").unlink()
    assert context.call("timezone.get_hwclock") == "UTC"
    context.call("timezone.set_hwclock", "localtime")
    assert context.call("timezone.get_hwclock") == "localtime"
    assert timezone.system(context, "UTC").changes == {"utc": True}


@pytest.mark.parametrize("name", ["Europe/Bonn", "../etc/passwd", "", 7, "/etc/passwd"])
def test_unknown_zone_fails(etc: Path, context: Context, name: Any) -> None:
    found = timezone.system(context, name)
    assert found.result is False
    assert "no timezone is called" in found.comment


def test_clock_of_another_name_is_refused(etc: Path, context: Context) -> None:
    with pytest.raises(UsageError, match="UTC or localtime, not 'GMT'"):
        context.call("timezone.set_hwclock", "GMT")

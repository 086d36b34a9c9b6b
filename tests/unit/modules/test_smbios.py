"""smbios.* with what dmidecode prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import FunctionMark, Registry
from catena.modules import smbios
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from tests.unit.states.conftest import MakeWorld
from tests.unit.states.conftest import world as world

TEXT = """\
# dmidecode 3.4
Getting SMBIOS data from sysfs.
SMBIOS 2.8 present.

Handle 0x0100, DMI type 1, 27 bytes
System Information
\tManufacturer: QEMU
\tProduct Name: 0042
\tVersion: Not Specified
\tSerial Number: 0000000
\tUUID: 12345678-1234-5678-9abc-123456789abc

Handle 0x0400, DMI type 4, 42 bytes
Processor Information
\tFamily: Other
\tCore Count: 2
\tCharacteristics:
\t\t64-bit capable
\t\tMulti-Core

Handle 0x7F00, DMI type 127, 4 bytes
End Of Table
"""


def test_records_are_read_without_values_that_stand_for_nothing() -> None:
    system, processor = smbios.parse(TEXT)
    assert system == {
        "handle": "0x0100",
        "description": "System Information",
        "type": 1,
        "data": {
            "manufacturer": "QEMU",
            "product_name": "0042",
            "uuid": "12345678-1234-5678-9abc-123456789abc",
        },
    }
    assert processor["data"] == {
        "family": "Other",
        "core_count": 2,
        "characteristics": ["64-bit capable", "Multi-Core"],
    }


def test_all_records_are_read_when_they_are_not_cleaned() -> None:
    system, _, end = smbios.parse(TEXT, clean=False)
    assert (system["data"]["serial_number"], end["type"], "data" in end) == ("0000000", 127, False)
    [only] = smbios.parse(TEXT, ["core_count"])
    assert only["data"] == {"core_count": 2}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("serial_number", "To Be Filled By O.E.M."),
        ("serial_number", "0123456789"),
        ("uuid", "Not Settable"),
        ("asset_tag", "No Asset Tag"),
        ("family", "Unknown"),
        ("sku", "None"),
    ],
)
def test_false_values_are_known(key: str, value: str) -> None:
    assert not smbios.is_real(key, value)


@pytest.fixture
def dmidecode(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    def answers(text: str, retcode: int = 0) -> list[list[str]]:
        calls: list[list[str]] = []

        def look(context: Any, words: list[str], package: str) -> Ran:
            calls.append([package, *words])
            return Ran(0, retcode, text if not retcode else "", text if retcode else "")

        monkeypatch.setattr(programs, "look", look)
        return calls

    return answers


def test_program_is_called_with_a_type_or_a_keyword(
    world: MakeWorld, dmidecode: Callable[..., list[list[str]]]
) -> None:
    context: Context = world().context.with_(
        functions=Registry("function", modules.INDEX, FunctionMark)
    )
    calls = dmidecode(TEXT)
    assert [row["type"] for row in context.call("smbios.records", "1, 4")] == [1, 4]
    context.call("smbios.records", [4], "core_count")
    assert calls == [
        ["dmidecode", "dmidecode", "-t", "1,4"],
        ["dmidecode", "dmidecode", "-t", "4"],
    ]
    dmidecode("# SMBIOS\nSeaBIOS\n")
    assert context.call("smbios.get", "bios-vendor") == "SeaBIOS"
    dmidecode("0000000\n")
    assert context.call("smbios.get", "system-serial-number") is None
    for fun, word in (("get", "--dump-bin=x"), ("records", "-u")):
        with pytest.raises(UsageError):
            context.call(f"smbios.{fun}", word)
    dmidecode("/dev/mem: Permission denied", 1)
    with pytest.raises(CommandExecutionError, match="Permission denied"):
        context.call("smbios.records")

from __future__ import annotations

import dataclasses

from catena.transport.messages import TYPES, record
from tests.wire.wire_reference import PAGE, RECORDS, page


def test_wire_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "docs/reference/wire.md is old: run python -m tests.wire.wire_reference"
    )


def test_wire_page_names_every_message_and_field() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for number, kind in ((number, record(name)) for number, name in TYPES.items()):
        section = text.partition(f"### {number} {kind.__name__}\n")[2].partition("\n### ")[0]
        for field in dataclasses.fields(kind):
            assert f"| `{field.name}` |" in section, f"{kind.__name__}.{field.name}"


def test_wire_page_explains_nested_records() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"### {record.__name__}\n" in text for record in RECORDS)

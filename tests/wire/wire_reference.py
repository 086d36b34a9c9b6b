"""Generate docs/reference/wire.md from transport/messages.py and transport/wire.py.

Run `python -m tests.wire.wire_reference` to write the page; test_reference.py fails if it is out
of date."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

from catena.core import job
from catena.transport import wire
from catena.transport.keys import BOOTSTRAP
from catena.transport.messages import ALLOWED, TYPES, record

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"

HEAD = f"""\
# The wire

<!-- Made from transport/messages.py by tests/wire/wire_reference.py; do not edit. -->

Minion and master talk over three ZeroMQ sockets of the master (`control` at `port`, `bulk` at
`port` + 1, `enrol` at `port` + 2), all with CURVE. A ZeroMQ message has one part, which is one
frame. Programs on one host talk over unix sockets (`local`). There the length of each frame
precedes it, as 32 bits, big-endian.

## Frame

| bytes | what |
|---|---|
| 1 | type: the number of the message below |
| 1 | version of the wire, {wire.VERSION}; any other is refused without a fallback |
| 16 | msg-id: random |
| 16 | reply-to: msg-id of the message that this one answers; zero bytes if it answers none |
| rest | body: a MessagePack map of the fields below, by name |

Bodies hold null, booleans, integers of 64 bits, floats, text (UTF-8), bytes, lists and maps. A
larger integer is sent as its decimal text. NaN and the infinities in a minion's message become
the texts `nan`, `inf` and `-inf` on the master and in every JSON output. Extension types are
refused. An unknown field, a missing field and a value of a wrong type are refused with the
field's name. Fields with a default may be omitted.

A client of `enrol` does not know the master's key yet. The server's key pair on this socket is
therefore published and proves nothing. Its public key is `{{bootstrap}}`. The client trusts the
key in EnrolOffer by its fingerprint (SHA-256 of its 32 bytes, hex) or on first use.

A message does not name its sender. The sender is the key that the connection has proved; the
master looks it up among the accepted keys for every frame.

A frame that breaks a rule is counted; {{bad}} of them end the connection. If the socket has a
message `Failure`, the answer to such a frame is a `Failure` whose reply-to is the frame's
msg-id. A message of more than one part ends the connection at once.

"""


def field_notes(kind: type[Any]) -> dict[str, str]:
    """The `#:` comments before the fields of a record."""
    source = inspect.getsource(kind)
    lines = source.splitlines()
    notes = {}
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        words: list[str] = []
        at = node.lineno - 2
        while lines[at].strip().startswith("#:"):
            words.insert(0, lines[at].strip()[2:].strip())
            at -= 1
        notes[node.target.id] = " ".join(words)
    return notes


def type_text(annotation: str) -> str:
    """An annotation in words of the wire."""
    text = annotation.replace("typing.", "")
    for old, new in (
        ("Dict[str, Any]", "map"),
        ("tuple[Any, ...]", "list"),
        ("tuple[str, ...]", "list of text"),
        ("Any", "any"),
        ("str", "text"),
        ("bool", "boolean"),
        ("int", "integer"),
        ("Optional[", "null or ["),
    ):
        text = text.replace(old, new)
    return text.replace("null or [", "null or ").rstrip("]") if "null or [" in text else text


def table(kind: type[Any]) -> str:
    """A record's fields as a table."""
    fields = dataclasses.fields(kind)
    if not fields:
        return "No fields.\n"
    notes = field_notes(kind)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields:
        default = "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
        if field.default_factory is not dataclasses.MISSING:
            default = f"`{field.default_factory()!r}`"
        note = notes[field.name].replace("|", "\\|")
        rows.append(f"| `{field.name}` | {type_text(str(field.type))} | {default} | {note} |")
    return "\n".join(rows) + "\n"


def doc(kind: type[Any]) -> str:
    return inspect.getdoc(kind) or ""


def places(kind: type[Any]) -> str:
    found = [f"{s} → {r}" for (s, r), names in ALLOWED.items() if kind.__name__ in names]
    return ", ".join(found)


def limits() -> str:
    rows = [
        "## Limits",
        "",
        "| socket → receiver | frame | depth | values |",
        "|---|---|---|---|",
    ]
    for (socket, receiver), limit in wire.LIMITS.items():
        size = f"{limit.frame_bytes:,} bytes"
        rows.append(f"| {socket} → {receiver} | {size} | {limit.depth} | {limit.nodes:,} |")
    return "\n".join(rows) + "\n\n"


def page() -> str:
    """The whole page."""
    from catena.transport.port import BAD_FRAMES

    parts = [
        HEAD.replace("{bad}", str(BAD_FRAMES)).replace("{bootstrap}", BOOTSTRAP.public),
        limits(),
        "## Messages\n\n",
    ]
    for number, name in sorted(TYPES.items()):
        kind = record(name)
        parts.append(f"### {number} {kind.__name__}\n\n{doc(kind)}\n\n")
        parts.append(f"Arrives at: {places(kind)}.\n\n{table(kind)}\n")
    parts.append("## Records inside messages\n\n")
    for inner in RECORDS:
        parts.append(f"### {inner.__name__}\n\n{doc(inner)}\n\n{table(inner)}\n")
    return "".join(parts).rstrip() + "\n"


#: Records that fields of messages are made of.
RECORDS = (
    job.JobSpec,
    job.JobReturn,
    job.JobProgress,
    job.Payload,
    job.ChainManifest,
    job.ChunkManifest,
    job.ActionManifest,
)

if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")

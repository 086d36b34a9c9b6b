"""smbios.*: what the firmware says of the hardware, by dmidecode."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import listed, truth

_PACKAGE = "dmidecode"
_KEYWORD = re.compile(r"[a-z][a-z0-9-]*\Z")
_TYPE = re.compile(r"\d{1,3}(,\d{1,3})*\Z|[a-z]+\Z")
_HANDLE = re.compile(r"Handle (0x[0-9A-Fa-f]+), DMI type (\d+),")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\Z")
#: Keys whose values stay text, even those of digits.
_TEXTS = ("serial", "part", "asset", "product")
#: Values that makers of hardware leave in, by kind of key.
_FALSE_SERIAL = re.compile(
    r"0+\Z|0?1234567\d*|.*(sernum|part[_-]?number|specified|filled|applicable)", re.IGNORECASE
)
_FALSE_MAKER = re.compile(r".*(manufacturer|to be filled|available|asset)|no(ne|t)", re.IGNORECASE)
_FALSE = re.compile(
    r".*(to be filled|un(known|specified)"
    r"|no(t|ne)? (asset|provided|defined|available|present|specified))",
    re.IGNORECASE,
)


def is_real(key: str, value: str) -> bool:
    """Return whether a value is none of those that stand for nothing."""
    if not value or value.lower().startswith("none"):
        return False
    if "uuid" in key:
        return bool(_UUID.match(value))
    if any(part in key for part in ("serial", "part", "version")):
        return not _FALSE_SERIAL.match(value)
    if any(part in key for part in ("asset", "manufacturer")):
        return not _FALSE_MAKER.match(value)
    return not _FALSE.match(value)


def _value(key: str, text: str, *, clean: bool) -> Any:
    """Return a value as number, list or text; None for one that stands for nothing."""
    if clean and not is_real(key, text):
        return None
    if key.startswith(_TEXTS):
        return text
    if "," in text:
        return [part.strip() for part in text.split(",")]
    return int(text) if re.match(r"-?\d+\Z", text) else text


def _data(lines: Sequence[str], fields: Sequence[str], *, clean: bool) -> Dict[str, Any]:
    """Return the values of a record: one tab before a key, two before an item of its list."""
    found: Dict[str, Any] = {}
    key = ""
    for line in lines:
        if line.startswith("\t\t"):
            item = _value(key, line.strip(), clean=clean) if key else None
            if item is not None:
                have = found.get(key)
                rows = have if isinstance(have, list) else [] if have is None else [have]
                found[key] = [*rows, item]
        elif line.startswith("\t"):
            name, _, text = line.strip().partition(":")
            key = name.strip().lower().replace(" ", "_")
            if (clean and key == "header_and_data") or (fields and key not in fields):
                key = ""
                continue
            value = _value(key, text.strip(), clean=clean)
            if value is not None and (text.strip() or not clean):
                found[key] = value
    return {name: value for name, value in found.items() if value != ""}


def parse(text: str, fields: Sequence[str] = (), *, clean: bool = True) -> List[Dict[str, Any]]:
    """Return the records that dmidecode prints: handle, description, type and data.

    Args:
        text: its output.
        fields: only these keys of the data; none: all.
        clean: leave out values that stand for nothing, and records without values.
    """
    found = []
    for block in re.split(r"\n(?=Handle 0x)", f"\n{text}"):
        lines = block.splitlines()
        head = _HANDLE.match(lines[0]) if lines else None
        if head is None or len(lines) < 2:
            continue
        record: Dict[str, Any] = {
            "handle": head.group(1),
            "description": lines[1].strip(),
            "type": int(head.group(2)),
        }
        data = _data(lines[2:], fields, clean=clean)
        if data:
            record["data"] = data
        if data or not clean:
            found.append(record)
    return found


def _run(context: Context, options: List[str]) -> str:
    ran = programs.look(context, ["dmidecode", *options], _PACKAGE)
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip()[-500:]
        raise CommandExecutionError(f"dmidecode failed with return code {ran.retcode}: {told}")
    return ran.stdout


@function(reads=True)
def get(context: Context, string: str, clean: Any = True) -> Optional[str]:
    """Return one value of the firmware; None if there is none.

    Args:
        context: the host.
        string: a keyword of dmidecode: system-uuid, bios-version, chassis-type, ….
        clean: return None for values that stand for nothing, as a serial number 0000000.

    Raises:
        CommandExecutionError: dmidecode is not installed, or failed.
        UsageError: it can't be a keyword.
    """
    if not _KEYWORD.match(str(string)):
        raise UsageError(f"string: {str(string)[:80]!r} is no keyword of dmidecode")
    lines = _run(context, ["-s", str(string)]).strip().splitlines()
    value = "\n".join(line for line in lines if not line.startswith("#"))
    if value.startswith("/dev/mem") or (truth(clean) and not is_real(str(string), value)):
        return None
    return value


@function(reads=True)
def records(
    context: Context, rec_type: Any = None, fields: Any = None, clean: Any = True
) -> List[Dict[str, Any]]:
    """Return the records of the firmware: handle, description, type and data.

    Args:
        context: the host.
        rec_type: only records of these types: a number, several with commas, or a keyword of
            dmidecode (memory, processor, …).
        fields: only these keys of the data.
        clean: leave out values that stand for nothing, and records without values.

    Raises:
        CommandExecutionError: dmidecode is not installed, or failed.
        UsageError: it can't be a type.
    """
    options: List[str] = []
    if rec_type is not None:
        text = ",".join(map(str, rec_type)) if isinstance(rec_type, list) else str(rec_type)
        if not _TYPE.match(text.replace(" ", "")):
            raise UsageError(f"rec_type: {text[:80]!r} is no type of record")
        options = ["-t", text.replace(" ", "")]
    return parse(_run(context, options), [str(one) for one in listed(fields)], clean=truth(clean))

"""Inventory of the rpm database, for dnf and zypper."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.inventory import FIELD, RECORD, Inventory, PackageInfo, stamped
from catena.modules.pkg.provider import Tool

#: Attribute -> its tag in rpm's query format.
_TAGS: Mapping[str, str] = {
    "epoch": "%|EPOCH?{%{EPOCH}}|",
    "version": "%{VERSION}",
    "release": "%{RELEASE}",
    "arch": "%{ARCH}",
    "vendor": "%{VENDOR}",
    "install_date": "%|INSTALLTIME?{%{INSTALLTIME}}|",
    "install_date_time_t": "%|INSTALLTIME?{%{INSTALLTIME}}|",
    "build_date": "%{BUILDTIME}",
    "build_date_time_t": "%{BUILDTIME}",
    "build_host": "%{BUILDHOST}",
    "group": "%{GROUP}",
    "source": "%{SOURCERPM}",
    "size": "%{LONGSIZE}",
    "license": "%|LICENSE?{%{LICENSE}}|",
    "signature": "%|DSAHEADER?{%{DSAHEADER:pgpsig}}:"
    "{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:{(none)}|}|",
    "packager": "%|PACKAGER?{%{PACKAGER}}|",
    "url": "%|URL?{%{URL}}|",
    "summary": "%{SUMMARY}",
    "description": "%{DESCRIPTION}",
}
_EDITION = "%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"
_PROVIDES = "[%{PROVIDES}\\t%{=NAME}\\n]"


def info_format(attributes: Sequence[str]) -> Tuple[str, List[str]]:
    """Return the query format for some attributes (all if none), and their names in its order.

    Raises:
        CommandExecutionError: none of the attributes exists.
    """
    # Salt's name in rpm's own module.
    asked = ["source" if name == "source_rpm" else name for name in attributes]
    names = [name for name in asked if name in _TAGS] if asked else list(_TAGS)
    if not names:
        raise CommandExecutionError("No valid attributes found.")
    return FIELD.join(["%{NAME}", _EDITION, *(_TAGS[name] for name in names)]) + RECORD, names


def parse_info(text: str, names: Sequence[str]) -> List[PackageInfo]:
    """Return the packages of a query in `info_format`."""
    found = []
    for record in text.split(RECORD):
        # A name that is not installed is a line of its own before the next record.
        name, *values = record.split(FIELD)
        name = name.rpartition("\n")[2]
        if len(values) != len(names) + 1 or name.startswith("gpg-pubkey"):
            continue
        found.append(PackageInfo(name, values[0], _fields(dict(zip(names, values[1:])))))
    return found


def _fields(values: Mapping[str, str]) -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    for name, value in values.items():
        if name in ("install_date", "build_date"):
            fields[name] = stamped(value)[0]
        elif name.endswith("_time_t"):
            fields[name] = stamped(value)[1]
        else:
            fields[name] = value
    return {name: value for name, value in fields.items() if value not in ("", None)}


def parse_provides(text: str) -> Dict[str, List[str]]:
    """Return the packages by what they provide, of a query in _PROVIDES."""
    found: Dict[str, List[str]] = {}
    for line in text.splitlines():
        capability, _, package = line.partition("\t")
        if package and package not in found.setdefault(capability, []):
            found[capability].append(package)
    return found


class RpmInventory(Inventory):
    """The part of an inventory that the rpm database answers."""

    def __init__(self, context: Context, manager: str) -> None:
        super().__init__(manager)
        self._rpm = Tool(context, {"LC_ALL": "C.UTF-8", "TZ": "UTC"}, looks=True)

    def info(self, names: Sequence[str], attributes: Sequence[str]) -> List[PackageInfo]:
        """Return the installed packages *names*, or all."""
        form, fields = info_format(attributes)
        chosen = (
            ["-q", "--queryformat", form, "--", *names]
            if names
            else ["-qa", "--queryformat", form]
        )
        # rpm's exit code is the number of names that are not installed.
        _, out, _ = self._rpm.status("rpm", *chosen)
        return parse_info(out, fields)

    def provides(self) -> Dict[str, List[str]]:
        """Return the installed packages by what they provide."""
        return parse_provides(self._rpm("rpm", "-qa", "--queryformat", _PROVIDES))

    def read_file(self, path: str) -> Tuple[str, str]:
        """Return name and version of a package's file."""
        form = f"%{{NAME}}\\t{_EDITION}"
        name, _, edition = self._rpm(
            "rpm", "-qp", "--nosignature", "--queryformat", form, path
        ).partition("\t")
        return name, edition.strip()

"""What a caller of pkg.* asks for: packages, versions, files."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg.provider import (
    Provider,
    WantedPackage,
    checked_name,
    checked_version,
)
from catena.modules.shared.arguments import listed

_OPERATOR = re.compile(r"\s*(<=|>=|==|!=|<|>|=)?\s*(\S+)\s*\Z")


def wanted_packages(
    name: Optional[str], pkgs: Any, version: Optional[str] = None
) -> List[WantedPackage]:
    """Return the wanted packages from `name`, `version` and `pkgs`.

    *pkgs* is a list of names and of {name: version}; *name* may be a comma-separated list.

    Raises:
        UsageError: a name or version breaks the grammar, or nothing is asked for.
    """
    found: List[WantedPackage] = []
    items = pkgs if pkgs else listed(name)
    for item in listed(items) if isinstance(items, str) else items:
        if isinstance(item, Mapping):
            found += [_wanted(key, value) for key, value in item.items()]
        else:
            found.append(_wanted(item, version if not pkgs else None))
    if not found:
        raise UsageError("no package was named")
    return found


def _wanted(name: Any, version: Any) -> WantedPackage:
    text = "" if version in (None, "latest") else str(version).strip().lstrip("=")
    return WantedPackage(checked_name(str(name)), text)


def satisfies(provider: Provider, have: Sequence[str], want: str) -> bool:
    """Return whether one of the installed versions is what *want* asks for.

    *want* is a version, a version with a `*`, or an operator and a version (">=1.2").
    """
    if not have or not want:
        return bool(have)
    if "*" in want:
        return any(fnmatch.fnmatchcase(version, want) for version in have)
    parsed = _OPERATOR.match(want)
    if parsed is None:
        raise UsageError(f"{want!r} is no version")
    operator, version = parsed[1] or "==", checked_version(parsed[2])
    tests: Mapping[str, Callable[[int], bool]] = {
        "<": lambda c: c < 0, "<=": lambda c: c <= 0, ">": lambda c: c > 0,
        ">=": lambda c: c >= 0, "==": lambda c: c == 0, "=": lambda c: c == 0,
        "!=": lambda c: c != 0,
    }  # fmt: skip
    return any(tests[operator](provider.compare(present, version)) for present in have)


def resolved(tool: Provider, wanted: Sequence[WantedPackage]) -> List[WantedPackage]:
    """Return *wanted* with operators and globs replaced by matching candidate versions."""
    odd = [item for item in wanted if re.match(r"[<>!]", item.version) or "*" in item.version]
    if not odd:
        return [WantedPackage(item.name, checked_version(item.version)) for item in wanted]
    offered = tool.candidates([item.name for item in odd])
    found = []
    for item in wanted:
        if item not in odd:
            found.append(WantedPackage(item.name, checked_version(item.version)))
        elif satisfies(tool, [v for v in (offered[item.name],) if v], item.version):
            found.append(WantedPackage(item.name, offered[item.name]))
        else:
            offer = offered[item.name] or "nothing"
            raise CommandExecutionError(
                f"{item.name}: {item.version} is wanted, the repositories offer {offer}"
            )
    return found


def package_files(context: Context, sources: Any) -> Dict[str, str]:
    """Return local files by package name for Salt's `sources`: [{name: salt://… or path}]."""
    found: Dict[str, str] = {}
    for item in sources or ():
        if not isinstance(item, Mapping):
            raise UsageError("sources is a list of {package name: file}")
        for name, where in item.items():
            path = str(where)
            if path.startswith("salt://"):
                local = context.files.fetch(path[len("salt://") :], context.saltenv)
                if local is None:
                    raise CommandExecutionError(f"{path} was not found")
                path = str(local)
            found[checked_name(str(name))] = path
    return found

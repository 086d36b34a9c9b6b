"""Read requirements of pip: names with versions (PEP 508), URLs, repositories, local files."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from catena.core.addresses import hide_credentials
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.modules.pip.versions import Specifier, checked
from catena.modules.pip.versions import parse as is_version

#: Maximum characters of one requirement.
_LENGTH = 4096
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_HEAD = re.compile(rf"(?P<name>{_NAME})\s*(?:\[(?P<extras>[A-Za-z0-9._,\s-]*)\])?\s*")
_SPECIFIER = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,;()]+)\s*\Z")
_ADDRESS = re.compile(r"(?:(?:git|hg|svn|bzr)\+)?[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_VCS = ("git+", "hg+", "svn+", "bzr+")
_ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz", ".tar")
_SDIST = re.compile(rf"(?P<name>{_NAME})-(?P<version>v?\d[A-Za-z0-9.!+_]*)\Z")


@dataclass(frozen=True)
class Requirement:
    """One requirement."""

    #: As pip receives it.
    line: str
    #: Normalized name (PEP 503); "" if only an installation shows it.
    name: str = ""
    specifiers: Tuple[Specifier, ...] = ()
    #: URL or path; "" for a package of an index.
    address: str = ""

    def shown(self) -> str:
        """Return the requirement without credentials."""
        return hide_credentials(self.line)


def normalized(name: str) -> str:
    """Return the name under which PEP 503 compares packages."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> Requirement:
    """Return a requirement.

    Raises:
        UsageError: it is none; the message names the mistake.
    """
    line = str(text).strip()
    if not line or len(line) > _LENGTH or any(mark in line for mark in "\r\n\0"):
        raise UsageError(f"{hide_credentials(line[:80])!r} is no requirement of pip")
    if line.startswith("-"):
        raise UsageError(f"{line[:80]!r} is an option of pip and no requirement")
    head = _HEAD.match(line)
    if head is not None and line[head.end() :].startswith("@"):
        address = line[head.end() + 1 :].split(" ;")[0].strip()
        return Requirement(line, normalized(head["name"]), (), address)
    if _is_address(line):
        return _of_address(line, line)
    if head is None:
        raise UsageError(f"{line[:80]!r} is no requirement of pip")
    name, rest = normalized(head["name"]), line[head.end() :]
    return Requirement(line, name, _specifiers(rest.partition(";")[0].strip(), line))


def _is_address(line: str) -> bool:
    if line.startswith((".", "/")) or _ADDRESS.match(line):
        return True
    # A relative path, as pip tells it: a file that is an archive, or a folder with a slash.
    bare = line.partition("[")[0]
    return bare.endswith(_ARCHIVES) or ("/" in bare and "@" not in bare)


def _specifiers(text: str, line: str) -> Tuple[Specifier, ...]:
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    found: List[Specifier] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        known = _SPECIFIER.match(part)
        if known is None:
            if re.match(r"=[^=]", part):
                raise UsageError(
                    f"Invalid version specification in package {line}. '=' is not supported, use "
                    "'==' instead."
                )
            raise UsageError(f"{part!r} in {line[:200]!r} is no condition on a version")
        found.append(checked(known[1], known[2], line))
    return tuple(found)


def _of_address(line: str, address: str) -> Requirement:
    name = egg_of(address)
    if name:
        return Requirement(line, name, (), address)
    if address.startswith(_VCS):
        return Requirement(line, "", (), address)
    path = unquote(urlsplit(address).path) if "://" in address else address.partition("[")[0]
    name, version = _of_file(PurePosixPath(path).name)
    operator = "==" if is_version(version) else "==="
    return Requirement(line, name, (Specifier(operator, version),) if version else (), address)


def egg_of(address: str) -> str:
    """Return the normalized name that the fragment of a URL gives (#egg=NAME); or ""."""
    for part in urlsplit(address).fragment.split("&"):
        key, _, value = part.partition("=")
        found = _HEAD.match(unquote(value)) if key == "egg" else None
        if found is not None:
            return normalized(found["name"])
    return ""


def _of_file(name: str) -> Tuple[str, str]:
    """Return name and version of an archive with a conventional name; or two empty texts."""
    suffix = next((one for one in _ARCHIVES if name.endswith(one)), "")
    stem = name[: -len(suffix)] if suffix else ""
    if suffix == ".whl":
        parts = stem.split("-")
        return (normalized(parts[0]), parts[1].replace("_", "-")) if len(parts) >= 5 else ("", "")
    found = _SDIST.match(stem)
    return (normalized(found["name"]), found["version"]) if found else ("", "")


def split_list(text: str) -> List[str]:
    """Return the requirements of a text in which commas separate them.

    A comma within brackets, or before an operator, belongs to its requirement: "a[b,c]>=1,<2,d".
    Salt writes a semicolon for the comma of a version range: "a>=1;<2".
    """
    found: List[str] = []
    depth = start = 0
    for place, mark in enumerate(text):
        depth += (mark in "[(") - (mark in "])")
        if mark == "," and depth == 0 and not re.match(r"\s*[<>=!~]", text[place + 1 :]):
            found.append(text[start:place])
            start = place + 1
    found.append(text[start:])
    return [re.sub(r";(?=\s*[<>=!~])", ",", one.strip()) for one in found if one.strip()]


def parse_lines(text: str) -> Optional[List[Requirement]]:
    """Return the requirements of a file; None if it has options or is no requirements file."""
    found = []
    for raw in re.sub(r"\\\r?\n", "", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if not line:
            continue
        bare = re.sub(r"\s--hash[= ]\S+", "", line)
        try:
            one = parse(bare)
        except UsageError:
            return None
        found.append(one)
    return found

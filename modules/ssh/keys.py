"""Lines of authorized_keys: parse, format and change them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.shared.arguments import listed

_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+\Z")
#: Key types by the short names that Salt knows.
_SHORT = {
    "r": "ssh-rsa", "rsa": "ssh-rsa",
    "d": "ssh-dss", "dsa": "ssh-dss", "dss": "ssh-dss",
    "e": "ecdsa-sha2-nistp256", "ecdsa": "ecdsa-sha2-nistp256",
    "ed25519": "ssh-ed25519", "ed25519-sk": "sk-ssh-ed25519@openssh.com",
    "ecdsa-sk": "sk-ecdsa-sha2-nistp256@openssh.com",
}  # fmt: skip
_KNOWN = frozenset([*_SHORT.values(), "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"])
#: Hash algorithms of fingerprints.
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


@dataclass(frozen=True)
class AuthorizedKey:
    """One line of authorized_keys."""

    key: str
    enc: str = "ssh-rsa"
    comment: str = ""
    options: Tuple[str, ...] = ()

    def line(self) -> str:
        """Return the line as Salt writes it, with a space at its end if the comment is empty."""
        options = f"{','.join(self.options)} " if self.options else ""
        return f"{options}{self.enc} {self.key} {self.comment}"


def refined(enc: Any) -> str:
    """Return the key type that a type or a short name such as "rsa" means.

    Raises:
        CommandExecutionError: no type has that name.
    """
    found = _SHORT.get(str(enc), str(enc))
    if found not in _KNOWN:
        raise CommandExecutionError(f"Incorrect encryption key type '{enc}'.")
    return found


def fingerprint(key: str, kind: Optional[str] = None) -> Optional[str]:
    """Return the fingerprint "xx:xx:…" of a base64 key; None if the key is no base64.

    Args:
        key: the key.
        kind: hash algorithm; default: sha256.

    Raises:
        CommandExecutionError: the algorithm is not supported.
    """
    name = str(kind or "sha256").lower()
    if name not in _HASHES:
        raise CommandExecutionError(f"The fingerprint_hash_type {name} is not supported.")
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    digest = hashlib.new(name, raw).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def _cut(text: str, marks: str) -> Tuple[str, str]:
    """Split *text* at the first of *marks* outside double quotes."""
    quoted = escaped = False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and quoted:
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character in marks and not quoted:
            return text[:position], text[position + 1 :]
    return text, ""


def split_options(text: str) -> Tuple[str, ...]:
    """Return the options of a text such as `no-pty,command="a, b"`."""
    found: List[str] = []
    while text:
        option, text = _cut(text, ",")
        found.append(option)
    return tuple(found)


def parse(line: str) -> Optional[AuthorizedKey]:
    """Return the key of a line of authorized_keys; None if the line has none."""
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    options = ""
    if not _TYPE.match(text.split(None, 1)[0]):
        options, text = _cut(text, " \t")
    parts = text.split(None, 2)
    if len(parts) < 2 or not _TYPE.match(parts[0]):
        return None
    comment = parts[2].strip() if len(parts) > 2 else ""
    return AuthorizedKey(parts[1], parts[0], comment, split_options(options))


def wanted(name: Any, enc: Any, comment: Any, options: Any) -> AuthorizedKey:
    """Return the key that a state's arguments describe.

    Args:
        name: "KEY", "KEY COMMENT", "TYPE KEY COMMENT" or "OPTIONS TYPE KEY COMMENT".
        enc: type, where *name* has none.
        comment: where *name* has none.
        options: list, where *name* has none.

    Raises:
        UsageError: a part is no text, or holds a line break.
    """
    if not isinstance(name, str) or not name.split():
        raise UsageError("the name of the state must be a key: TYPE KEY COMMENT, or KEY")
    checked = checked_options(options)
    if any(mark in text for text in (name.strip(), str(comment or "")) for mark in "\r\n\0"):
        raise UsageError("a key and its comment must be one line")
    full = parse(name)
    if full is not None:
        return AuthorizedKey(
            full.key, full.enc, full.comment or str(comment or ""), full.options or checked
        )
    words = name.split(None, 1)
    told = words[1].strip() if len(words) > 1 else str(comment or "")
    return AuthorizedKey(words[0], str(enc), told, checked)


def checked_options(options: Any) -> Tuple[str, ...]:
    """Return the options of a state's argument, a list or one text.

    Raises:
        UsageError: it is neither, or an option holds a line break.
    """
    if isinstance(options, str):
        return _lines_checked(split_options(options))
    if options is not None and not isinstance(options, (list, tuple)):
        raise UsageError(f"options must be a list, not {type(options).__name__}")
    return _lines_checked(tuple(str(one) for one in listed(options)))


def _lines_checked(options: Tuple[str, ...]) -> Tuple[str, ...]:
    if any(mark in option for option in options for mark in "\r\n\0"):
        raise UsageError("an option of a key must be one line")
    return options


@lru_cache(maxsize=2)
def by_key(text: str) -> Mapping[str, AuthorizedKey]:
    """Return the valid keys of a file's text.

    The result is cached: each of a run's states about one file asks for the same text.
    """
    found: Dict[str, AuthorizedKey] = {}
    for line in text.splitlines():
        one = parse(line)
        if one is not None and fingerprint(one.key) is not None:
            found[one.key] = one
    return MappingProxyType(found)


def status_of(text: str, one: AuthorizedKey) -> str:
    """Return "exists", "update" (other type, comment or options) or "add"."""
    current = by_key(text).get(one.key)
    if current is None:
        return "add"
    return "exists" if current.line() == one.line() else "update"


def with_key(text: str, one: AuthorizedKey) -> str:
    """Return the text with a key added or updated; other lines stay."""
    line = f"{one.line()}\n"
    if one.key not in by_key(text):
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}"
    lines = text.splitlines(keepends=True)
    return "".join(line if _has(each, one.key) else each for each in lines)


def without_key(text: str, key: str) -> str:
    """Return the text without the lines of a key; other lines stay."""
    return "".join(line for line in text.splitlines(keepends=True) if not _has(line, key))


def _has(line: str, key: str) -> bool:
    found = parse(line)
    return found is not None and found.key == key

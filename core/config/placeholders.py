"""Placeholders of an example that a configuration still contains.

One rule covers the text of all settings, so each example that the documentation prints is found
when somebody copies it without filling in a value.
"""

from __future__ import annotations

from typing import Any, Iterator, List

from catena.core import frozen
from catena.core.patterns import lazy_pattern

#: Marks that no real value contains: <address>, {{ address }}, @address@, ${ADDRESS}, and an
#: ellipsis.
_MARK = lazy_pattern(r"<[^<>\s][^<>]*>|\{\{.*?\}\}|@[A-Za-z_]+@|\$\{\w+\}|…|\A\.{3}\Z")
#: Words that ask the reader to replace the value.
_REQUEST = lazy_pattern(
    r"(?i)((change|replace|fill)[-_ ]?(me|this|it|in)|your([-_ ].+)?|(insert|put|paste)[-_ ].+"
    r"|x{3,}|todo|fixme|tbd)\Z"
)
#: A word in capitals, such as MASTER, ENROL_TOKEN or MY-MASTER.
_CAPITALS = lazy_pattern(r"[A-Z]+([-_ .][A-Z]+)*\Z")
_SEPARATOR = lazy_pattern(r"[-_ .]")
#: Words in capitals that stand for a value. The words of the setting's name are added to them.
_WORDS = frozenset(
    "A ADDR ADDRESS DNS FINGERPRINT FQDN FROM HOST HOSTNAME IP KEY MACHINE MASTER MINION MY NAME "
    "OF ONE PASSWORD SECRET STRING THE TIME TOKEN URL USER USERNAME VALUE YOUR".split()
)
#: Host of a URL, behind the user name and the password.
_URL_HOST = lazy_pattern(r"[a-z0-9+]+://(?:[^@/]*@)?([^/:?@]+)")
#: Names reserved for examples (RFC 2606), which no real host has: the domains example.com,
#: example.net and example.org, and the top-level domains example and invalid.
_RESERVED = lazy_pattern(r"(?i)(.+\.)?(example(\.(com|net|org))?|invalid)\.?\Z")
#: Settings that are an address. No daemon can reach or use one below a reserved domain.
_ADDRESSES = frozenset(["master", "interface"])


def unusable(settings: Any) -> Iterator[str]:
    """Yield one sentence per setting that cannot work, because a placeholder is left in it.

    Args:
        settings: MasterSettings or MinionSettings.
    """
    for field in frozen.fields(settings):
        name, text = field.name, getattr(settings, field.name)
        # A choice or a fixed form was checked when the setting was read.
        checked = field.metadata["choices"] or field.metadata["grammar"]
        if checked or not isinstance(text, str) or text == field.default:
            continue
        mark = _placeholder(name, text)
        if mark:
            yield f"{name}: {mark!r} is a placeholder: fill in your own value"
        elif _is_reserved(name, text):
            yield f"{name}: {_host(text)} is an example name: {_wanted(name)}"


def doubtful(settings: Any) -> Iterator[str]:
    """Yield one sentence per setting that works but was probably copied from an example.

    The id of a minion is a name that nobody looks up, so a minion with an example name runs.
    """
    name = getattr(settings, "id", "")
    if name and _RESERVED.match(name):
        yield f"id: {name} is an example name: set this host's own name, or remove the line"


def findings(settings: Any) -> List[str]:
    """Return the sentences of `unusable` and `doubtful`, for the log of a daemon."""
    return [
        f"{text} (see `catena config check`)"
        for text in (*unusable(settings), *doubtful(settings))
    ]


def _placeholder(name: str, text: str) -> str:
    """Return the placeholder in *text*; "" if it has no placeholder."""
    mark = _MARK.search(text)
    if mark:
        return mark.group()
    if _REQUEST.match(text):
        return text
    if not _CAPITALS.match(text):
        return ""
    words = _WORDS.union(name.upper().split("_"))
    return text if words.issuperset(_SEPARATOR.split(text)) else ""


def _host(text: str) -> str:
    """Return the host of a URL, or *text* if it is no URL. A URL may contain a password."""
    found = _URL_HOST.match(text)
    return found.group(1) if found else text


def _is_reserved(name: str, text: str) -> bool:
    host = _host(text)
    return (name in _ADDRESSES or host != text) and bool(_RESERVED.match(host))


def _wanted(name: str) -> str:
    return "set the address of your master" if name == "master" else "set the address of your own"

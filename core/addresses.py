"""Find and hide credentials in URLs, also inside longer texts."""

from __future__ import annotations

import re

from catena.core.patterns import lazy_pattern

#: Scheme and user information of a URL, up to the last @ before the path.
_USERINFO = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/\s\"'<>]*)@")
#: Schemes whose user name is an account name and no secret: git+ssh://git@host.
_NAMED_ACCOUNTS = ("ssh",)


def _is_secret(scheme: str, userinfo: str) -> bool:
    if scheme.lower().rpartition("+")[2] in _NAMED_ACCOUNTS:
        return ":" in userinfo
    # A pattern such as ${TOKEN} is a variable's name. A user name alone may be a token.
    return bool(re.sub(r"\$\{\w+\}", "", userinfo).strip(":"))


def has_credentials(text: str) -> bool:
    """Return whether *text* contains a URL with a password or a token."""
    return any(_is_secret(*found.groups()) for found in _USERINFO.finditer(text))


def hide_credentials(text: str) -> str:
    """Return *text* with the credentials of its URLs replaced by "<redacted>"."""

    def hide(found: re.Match[str]) -> str:
        return f"{found[1]}://<redacted>@" if _is_secret(found[1], found[2]) else found[0]

    return _USERINFO.sub(hide, text)


def without_credentials(text: str) -> str:
    """Return *text* with the user information of its URLs removed, to compare addresses."""
    return _USERINFO.sub(r"\1://", text)

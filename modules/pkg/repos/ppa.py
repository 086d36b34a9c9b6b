"""Ubuntu's personal package archives: `ppa:OWNER/NAME`."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.patterns import lazy_pattern

_PPA = lazy_pattern(r"ppa:~?([a-z0-9][a-z0-9+.-]*)/([a-z0-9][a-z0-9+.-]*)\Z")
_SYSTEMS = ("Ubuntu", "Mint", "Linux Mint", "neon")
_SERVER = "keyserver.ubuntu.com"


def is_ppa(repo: str) -> bool:
    """Return whether a repository is named as a personal package archive."""
    return repo.startswith("ppa:")


def _parts(context: Context, repo: str) -> Tuple[str, str, str]:
    """Return owner, name and suite.

    Raises:
        UsageError: the name is malformed.
        CommandExecutionError: this host is no Ubuntu.
    """
    match = _PPA.match(repo)
    if match is None:
        raise UsageError(f"{repo[:200]!r} is not ppa:OWNER/NAME")
    if context.grains.get("os") not in _SYSTEMS:
        raise CommandExecutionError(f'cannot parse "ppa:" style repo definitions: {repo}')
    return match[1], match[2], str(context.grains.get("oscodename"))


def ppa_line(context: Context, repo: str) -> str:
    """Return the line of sources.list for an archive."""
    owner, name, suite = _parts(context, repo)
    return f"deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {suite} main"


def ppa_options(context: Context, repo: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return *options* with the file and the key of an archive, where they name none.

    Raises:
        UsageError: a password is given.
        CommandExecutionError: Launchpad does not know the archive.
    """
    owner, name, suite = _parts(context, repo)
    if options.get("ppa_auth"):
        raise UsageError(
            "ppa_auth would write a password into sources.list, which everybody can read; put it "
            "into a file of /etc/apt/auth.conf.d, and name the archive by its line"
        )
    made = {"file": f"/etc/apt/sources.list.d/{owner}-{name}-{suite}.list", **options}
    if not any(made.get(key) for key in ("keyid", "key_url", "key_text")):
        made["keyid"] = _fingerprint(context, owner, name)
        made.setdefault("keyserver", _SERVER)
    return made


def _fingerprint(context: Context, owner: str, name: str) -> str:
    from catena.modules.http import Request, ask

    known = context.scratch.setdefault("pkg.repos.ppa", {})
    if (owner, name) not in known:
        address = f"https://launchpad.net/api/1.0/~{owner}/+archive/{name}"
        answer = ask(Request(address, headers={"Accept": "application/json"}))
        if answer.error:
            raise CommandExecutionError(
                f"Launchpad does not know about {owner}/{name}: {answer.error}"
            )
        try:
            known[owner, name] = str(json.loads(answer.text())["signing_key_fingerprint"])
        except (ValueError, KeyError, TypeError) as error:
            raise CommandExecutionError(
                f"Launchpad knows about {owner}/{name} but did not return a fingerprint; set "
                f"keyid and keyserver: {error}"
            ) from error
    return str(known[owner, name])

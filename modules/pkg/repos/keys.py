"""Get the keys of repositories: by address, as text, or by their ids from a key server."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Tuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.core.redact import hide_url_passwords
from catena.modules.pkg.repos.openpgp import KEY_LIMIT, binary_keyring, public_keys
from catena.modules.shared.arguments import listed

if TYPE_CHECKING:
    from catena.modules.http import Request

_ID = lazy_pattern(r"(?:0[xX])?([0-9A-Fa-f]{8,64})\Z")
#: Digits of a short id, a long id and a fingerprint.
_DIGITS = (8, 16, 40)
#: Port of the protocol hkp.
_HKP_PORT = 11371
#: Seconds for the download of one key, and for each step of it.
DOWNLOAD_SECONDS = 60.0
_STEP_SECONDS = 15.0
#: Key in the run's scratch data: downloaded keys by address.
_DOWNLOADED = "pkg.repos.keys"


@dataclass(frozen=True)
class KeySource:
    """Where the key of a repository is from; nothing if all fields are empty."""

    #: salt://, http(s):// or a path; several are joined.
    urls: Tuple[str, ...] = ()
    text: str = ""
    #: Hexadecimal digits in capitals.
    ids: Tuple[str, ...] = ()
    server: str = ""

    def named(self) -> bool:
        """Return whether a key is asked for."""
        return bool(self.urls or self.text or self.ids)


def key_source(options: Mapping[str, Any]) -> KeySource:
    """Return the source that the arguments key_url, key_text, keyid and keyserver name.

    Raises:
        UsageError: they contradict each other, or an id is none.
    """
    server, ids = options.get("keyserver"), listed(options.get("keyid"))
    for one, other, both in (
        ("key_url", bool(server or ids), '"keyid"/"keyserver" and "key_url"'),
        ("key_text", bool(server or ids), '"keyid"/"keyserver" and "key_text"'),
        ("key_text", bool(options.get("key_url")), '"key_url" and "key_text"'),
    ):
        if options.get(one) and other:
            raise UsageError(f"You may not use both {both} argument.")
    if bool(ids) is not bool(server):
        raise UsageError("both keyserver and keyid options required.")
    urls = tuple(str(one) for one in listed(options.get("key_url")))
    text = str(options.get("key_text") or "")
    return KeySource(urls, text, tuple(key_id(one) for one in ids), str(server or ""))


def key_id(value: object) -> str:
    """Return an id as hexadecimal digits in capitals.

    YAML reads `0x1234ABCD` and ids of decimal digits as numbers; a number with as many decimal
    digits as an id is the latter.

    Raises:
        UsageError: it is no id.
    """
    text = str(value).replace(" ", "")
    if isinstance(value, int) and len(text) not in _DIGITS:
        text = f"{value:08X}"
    match = _ID.match(text)
    if match is None:
        raise UsageError(f"{str(value)[:80]!r} is no key id: 8, 16 or 40 hexadecimal digits")
    return match[1].upper()


def wanted_keyring(
    context: Context, source: KeySource, present: bytes, saltenv: str = "base"
) -> bytes:
    """Return the binary keyring that *source* names.

    Args:
        context: the call's context.
        source: where the keys are from.
        present: the binary keyring in place; keys with the ids that *source* names are not
            fetched again.
        saltenv: environment of salt:// addresses.

    Raises:
        CommandExecutionError: a key can't be fetched, or is none.
    """
    if source.text:
        return binary_keyring(source.text.encode(), "key_text")
    if source.urls:
        return b"".join(_by_address(context, url, saltenv) for url in source.urls)
    keys = public_keys(present, "the present keyring")
    lacking = [one for one in source.ids if not any(key.has_id(one) for key in keys)]
    return present + b"".join(_by_id(context, one, source.server) for one in lacking)


def _by_address(context: Context, url: str, saltenv: str) -> bytes:
    from catena.modules.file.source import FileSource, fetch, missing

    if url.startswith(("http://", "https://")):
        known = context.scratch.setdefault(_DOWNLOADED, {})
        if url not in known:
            shown = hide_url_passwords(url)
            known[url] = binary_keyring(_downloaded(url, shown), shown)
        return bytes(known[url])
    wanted = FileSource(url, saltenv, skip_verify=True)
    found = fetch(context, wanted)
    if found is None:
        raise missing(context, wanted)
    return binary_keyring(read_limited(found, url), url)


def _request(url: str, headers: Mapping[str, str]) -> Request:
    from catena.modules.http import Request

    return Request(
        url,
        headers=headers,
        timeout=_STEP_SECONDS,
        limit=KEY_LIMIT,
        deadline=DOWNLOAD_SECONDS,
    )


def _downloaded(url: str, shown: str) -> bytes:
    """Return the answer of a web server, limited in size and time.

    Raises:
        CommandExecutionError: it failed; the message names the address as *shown*.
    """
    from catena.modules.http import ask

    parts = urlsplit(url)
    headers = {"User-Agent": "catena"}
    name, at, place = parts.netloc.rpartition("@")
    if at:
        pair = unquote(name).encode("utf-8")
        headers["Authorization"] = f"Basic {b64encode(pair).decode('ascii')}"
        url = urlunsplit(parts._replace(netloc=place))
    answer = ask(_request(url, headers))
    if answer.error:
        raise CommandExecutionError(f"{shown}: the key can't be fetched: {answer.error}")
    return answer.body


def read_limited(path: Path, origin: str) -> bytes:
    """Return the bytes of a key.

    Raises:
        CommandExecutionError: it can't be read, or is too long for a key.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(KEY_LIMIT + 1)
    except OSError as problem:
        raise CommandExecutionError(f"{origin}: {problem.strerror}") from problem
    if len(data) > KEY_LIMIT:
        raise CommandExecutionError(f"{origin}: is longer than {KEY_LIMIT} bytes, so no key")
    return data


def lookup_address(server: str, digits: str) -> str:
    """Return the address at which a key server gives a key (draft-gallagher-openpgp-hkp).

    Raises:
        UsageError: *server* is no server.
    """
    parts = urlsplit(server if "://" in server else f"hkps://{server}")
    schemes = {"hkp": "http", "hkps": "https", "http": "http", "https": "https"}
    if parts.scheme not in schemes or not parts.hostname:
        raise UsageError(f"{server[:200]!r} is no key server: HOST, hkp://HOST or hkps://HOST")
    place = parts.netloc.rpartition("@")[2]
    if parts.scheme == "hkp" and not parts.port:
        place = f"{place}:{_HKP_PORT}"
    path = "/pks/lookup?op=get&options=mr&exact=on&search=0x"
    return f"{schemes[parts.scheme]}://{place}{path}{quote(digits)}"


def _by_id(context: Context, digits: str, server: str) -> bytes:
    from catena.modules.http import ask

    known = context.scratch.setdefault(_DOWNLOADED, {})
    address = lookup_address(server, digits)
    if address not in known:
        answer = ask(_request(address, {}))
        if answer.error:
            raise CommandExecutionError(f"key {digits} of {server}: {answer.error}")
        made = binary_keyring(answer.body, f"key {digits} of {server}")
        if not any(key.has_id(digits) for key in public_keys(made, server)):
            raise CommandExecutionError(f"{server} sent another key than {digits}")
        known[address] = made
    return bytes(known[address])


def fingerprints(keyring: bytes, origin: str) -> List[str]:
    """Return the fingerprints of the primary keys of a binary keyring."""
    return sorted(key.fingerprint for key in public_keys(keyring, origin))


def named_id(
    context: Context, name: Optional[str], keyid: object, options: Mapping[str, Any]
) -> str:
    """Return the id of the key that pkg.del_repo_key is to remove.

    Raises:
        UsageError: no key is named.
    """
    if options.get("keyid_ppa"):
        if not str(name).startswith("ppa:"):
            raise UsageError("keyid_ppa requires that a PPA be passed")
        from catena.modules.pkg.repos.ppa import ppa_options

        return key_id(ppa_options(context, str(name), {})["keyid"])
    if not keyid:
        raise UsageError("keyid or keyid_ppa and PPA name must be passed")
    return key_id(keyid)

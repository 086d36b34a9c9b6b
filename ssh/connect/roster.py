"""The roster: the hosts over SSH, with Salt's keys, rendered like an SLS file."""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catena.core import target as expressions
from catena.core.config.master import MasterSettings
from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import load
from catena.core.errors import ConfigError, LimitError, UsageError
from catena.core.files import read_limited
from catena.core.frozen import replace
from catena.core.ids import BadNameError, minion_id
from catena.core.suggest import unknown
from catena.core.types import SourceLine
from catena.renderers.source import LineMap, Rendered, Source, decoded
from catena.renderers.yaml import load_rendered
from catena.ssh.connect.target import (
    SshTarget,
    SshTargetError,
    direct_target,
    host_name,
    port_number,
    python_path,
    remote_path,
    search_path,
    user_name,
)

SIZE_LIMIT = 4 * 1024 * 1024
HOST_LIMIT = 100_000
#: Salt's value of `priv` for the keys of the SSH agent.
_AGENT = "agent-forwarding"
_TEMPLATE = re.compile(r"\A#!|\{[{%#]")
#: Settings with which a text without Jinja marks needs no rendering.
_UNTOUCHED: Mapping[str, Any] = {"renderer": "jinja|yaml", "jinja_env": {}, "jinja_sls_env": {}}
_KEY_PATH = re.compile(r"(/|~/)[^\0\n]{0,1023}\Z")


def read(settings: MasterSettings, path: str = "") -> dict[str, SshTarget]:
    """Return the hosts of the roster by id.

    Args:
        settings: the master's: roster_file, roster_defaults and those that begin with ssh_.
        path: another file, which must exist; the configured one may be missing.

    Raises:
        ConfigError: the roster can't be rendered, or a host is malformed; names file and line.
    """
    file = Path(path or settings.roster_file)
    try:
        text = decoded(read_limited(file, SIZE_LIMIT), str(file))
    except FileNotFoundError:
        if path:
            raise ConfigError(f"{file}: no such roster") from None
        return {}
    except LimitError as error:
        raise ConfigError(str(error)) from None
    return hosts(_rendered(text, str(file), settings), settings)


def _rendered(text: str, name: str, settings: MasterSettings) -> Rendered:
    if settings == replace(settings, **_UNTOUCHED) and not _TEMPLATE.search(text):
        # Skip the import of the template engine, which would delay the command.
        return load_rendered(text, name, text, LineMap())
    from catena.renderers.pipeline import render
    from catena.runtime.master_session import master_session

    # No grains: those of this host do not describe others, and collecting them is slow.
    context = master_session(settings, f"{socket.gethostname()}_master", {}, settings.file_roots)
    return render(context.context, Source(text, name), settings.renderer)


def exposed(settings: MasterSettings, path: str, found: Mapping[str, SshTarget]) -> str:
    """Return a warning if others may write a roster, or read one with passwords; else "".

    Args:
        settings: the master's.
        path: as for `read`.
        found: what `read` returned.
    """
    file = Path(path or settings.roster_file)
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return ""
    defaults = settings.roster_defaults
    secret = any(
        (host.password and host.password != defaults.get("passwd"))
        or (host.private_key_password and host.private_key_password != defaults.get("priv_passwd"))
        for host in found.values()
    )
    if mode & 0o002:
        return f"{file}: others may write to it (mode {mode:o}): chmod o-w {file}"
    if secret and mode & 0o004:
        return (
            f"{file}: it holds passwords, and others may read it (mode {mode:o}): chmod 600 {file}"
        )
    return ""


def hosts(rendered: Rendered, settings: MasterSettings) -> dict[str, SshTarget]:
    """Return the hosts that a rendered roster names.

    Raises:
        ConfigError: one is malformed; names file and line.
    """
    data = {} if rendered.data is None else rendered.data
    if not isinstance(data, Mapping):
        raise ConfigError(f"{rendered.place()}: a roster is a mapping of ids to hosts")
    if len(data) > HOST_LIMIT:
        raise ConfigError(f"{rendered.place()}: more than {HOST_LIMIT} hosts")
    base = _defaults(settings)
    found: dict[str, SshTarget] = {}
    for name, fields in data.items():
        try:
            found[str(name)] = _host(rendered, str(name), fields, base)
        except BadNameError as error:
            raise ConfigError(f"{rendered.place(name)}: {error}") from None
    return found


def _defaults(settings: MasterSettings) -> dict[str, Any]:
    given = {
        "user": settings.ssh_user,
        "port": settings.ssh_port,
        "priv": settings.ssh_priv,
        "sudo": settings.ssh_sudo,
        "timeout": settings.ssh_timeout,
        "minion_opts": settings.ssh_minion_opts,
    }
    return {**{key: value for key, value in given.items() if value}, **settings.roster_defaults}


def _host(rendered: Rendered, name: str, fields: Any, base: Mapping[str, Any]) -> SshTarget:
    if isinstance(fields, str):
        fields = {"host": fields}
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{rendered.place(name)}: {name}: expected host: and other keys")

    def where(key: str) -> SourceLine:
        return rendered.place(name, key)

    _check_options(name, fields.get("minion_opts"), where)
    keys = {**base, **fields}
    every, own = base.get("minion_opts"), fields.get("minion_opts")
    if isinstance(every, Mapping) and isinstance(own, Mapping):
        keys["minion_opts"] = {**every, **own}
    return from_keys(name, keys, where)


def _check_options(name: str, options: Any, where: Callable[[str], object]) -> None:
    """Refuse invalid minion_opts, with file and line of the roster."""
    if isinstance(options, Mapping) and options:
        try:
            load(MinionSettings, options, SALT_KEYS)
        except ConfigError as error:
            place = where("minion_opts")
            raise ConfigError(f"{place}: {name}: minion_opts: {error}") from None


def from_keys(name: str, keys: Mapping[str, Any], where: Callable[[str], object]) -> SshTarget:
    """Return the target that Salt's *keys* describe.

    Args:
        name: its id.
        keys: of the roster, defaults put in.
        where: returns file and line of a key, for messages.

    Raises:
        ConfigError: a key is unknown, or a value is invalid.
        BadNameError: the id is invalid.
    """
    values: dict[str, Any] = {}
    for key, value in keys.items():
        if key in _REFUSED:
            raise ConfigError(f"{where(key)}: {name}: {key}: {_REFUSED[key]}")
        if key not in _KEYS:
            raise ConfigError(f"{where(key)}: {name}: {unknown('key', str(key), _KEYS)}")
        field, parse = _KEYS[key]
        if value is None:
            continue
        try:
            values[field] = parse(value)
        except (SshTargetError, ValueError) as error:
            raise ConfigError(f"{where(key)}: {name}: {key}: {error}") from None
    if "host" not in values:
        raise ConfigError(f"{where('')}: {name}: host: is missing")
    return SshTarget(minion_id(name), **values)


def targets(
    roster: Mapping[str, SshTarget], settings: MasterSettings, text: str, kind: str
) -> list[SshTarget]:
    """Return the hosts that match a target expression, in the order of the roster.

    `user@host`, `host:port` and `user@host:port` name a host that may be missing in the roster. If
    the roster has that id, it provides the other values.

    Args:
        roster: ids and hosts.
        settings: the master's: nodegroups, and the defaults of hosts that are in no roster.
        text: the expression.
        kind: glob, list, pcre or nodegroup.

    Raises:
        UsageError: the expression is malformed or matches no host; suggests similar names.
    """
    words = _words(text) if kind == "list" else [text]
    direct = {word: direct_target(word) for word in words} if kind in ("glob", "list") else {}
    found = [_direct(roster, settings, each) for each in direct.values() if each is not None]
    rest = ",".join(word for word in words if direct.get(word) is None)
    if rest:
        parsed = expressions.parse(rest, kind, settings.nodegroups)
        missing = [word for word in _words(rest) if word not in roster] if kind == "list" else []
        if missing:
            raise UsageError(f"{unknown('host', missing[0], roster)}{_hint(missing[0])}")
        subjects = (expressions.Subject(name, _grains(each)) for name, each in roster.items())
        found += [roster[subject.id] for subject in subjects if parsed.matches(subject)]
    if not found:
        raise UsageError(f"{_nobody(roster, text, kind)}{_hint(text)}")
    return _distinct(found)


def _distinct(found: list[SshTarget]) -> list[SshTarget]:
    """Return the hosts without duplicates; refuse two hosts with the same id."""
    by_id: dict[str, SshTarget] = {}
    for each in found:
        if by_id.setdefault(each.id, each) != each:
            raise UsageError(f"two hosts would be called {each.id}: give them ids in a roster")
    return list(by_id.values())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _direct(
    roster: Mapping[str, SshTarget], settings: MasterSettings, asked: SshTarget
) -> SshTarget:
    known = roster.get(asked.host) or from_keys(
        asked.id, {**_defaults(settings), "host": asked.host}, lambda key: "roster_defaults"
    )
    return replace(known, user=asked.user or known.user, port=asked.port or known.port)


def _grains(target: SshTarget) -> Mapping[str, Any]:
    found = target.minion_opts.get("grains")
    return found if isinstance(found, Mapping) else {}


def _nobody(roster: Mapping[str, SshTarget], text: str, kind: str) -> str:
    if not roster:
        return f"no host matches {text!r}: the roster is empty or missing"
    if kind == "glob" and not set(text) & set("*?["):
        return unknown("host", text, roster)
    return f"no host of the roster matches {text!r}"


def _hint(text: str) -> str:
    if "," in text:
        return "; a list of ids takes -L"
    plain = re.match(r"[A-Za-z0-9.-]+\Z", text)
    return f"; a host that is in no roster is named USER@{text}" if plain else ""


# -- the keys ----------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise SshTargetError(f"expected text, got {type(value).__name__}; put it in quotes")
    if len(value) > 1024 or "\n" in value or "\0" in value:
        raise SshTargetError("one line of at most 1024 characters")
    return value


def _word(parse: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: parse(_text(value)) if value != "" else ""


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SshTargetError(f"expected True or False, got {str(value)[:40]!r}")
    return value


def _key_path(value: Any) -> str:
    text = _text(value)
    if text in ("", _AGENT):
        return ""
    if not _KEY_PATH.match(text):
        raise SshTargetError(f"{text[:80]!r} is not the path of a key: /… or ~/…")
    return text


def _seconds(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 3600:
        raise SshTargetError(f"{str(value)[:40]!r} is not a time: 1 to 3600 seconds")
    return value


def _umask(value: Any) -> int:
    # As in Salt, YAML reads 0022 as the number 22; its digits are octal.
    digits = "" if isinstance(value, bool) else str(value)
    if not re.match(r"0?[0-7]{1,3}\Z", digits):
        raise SshTargetError(f"{digits[:40]!r} is not a umask: octal digits, such as 0022")
    return int(digits, 8)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SshTargetError(f"expected a mapping, got {type(value).__name__}")
    return {str(key): item for key, item in value.items()}


#: By roster key: field of SshTarget, parser.
_KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "host": ("host", _word(host_name)),
    "user": ("user", _word(user_name)),
    "port": ("port", port_number),
    "passwd": ("password", _text),
    "priv": ("private_key", _key_path),
    "priv_passwd": ("private_key_password", _text),
    "identities_only": ("identities_only", _flag),
    "sudo": ("sudo", _flag),
    "sudo_user": ("sudo_user", _word(user_name)),
    "tty": ("tty", _flag),
    "timeout": ("timeout_seconds", _seconds),
    "minion_opts": ("minion_opts", _mapping),
    "thin_dir": ("thin_dir", _word(remote_path)),
    "cmd_umask": ("umask", _umask),
    "set_path": ("search_path", _word(search_path)),
    "python": ("python", _word(python_path)),
}

#: By unsupported Salt key: the reason for the refusal.
_REFUSED: Mapping[str, str] = {
    "ssh_options": "options of ssh belong into the SSH configuration (~/.ssh/config)",
    "ssh_pre_flight": "a script before each run is not supported; run it with catena ssh -r",
    "ssh_pre_flight_args": "a script before each run is not supported; run it with catena ssh -r",
    "winrm": "hosts are reached over SSH only",
}

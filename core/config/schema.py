"""Settings as frozen records whose fields carry their own range and help.

Documentation and `catena config check` are made from the same metadata, so they can't disagree
with what is enforced.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Type, TypeVar, cast

from catena.core import frozen
from catena.core.errors import ConfigError, RecordError
from catena.core.patterns import lazy_pattern
from catena.core.records import decode
from catena.core.suggest import nearest, unknown

C = TypeVar("C")

#: A dotted key (mysql.host) is an option of some module: accepted, kept, seen by config.get.
_MODULE_OPTION = lazy_pattern(r"[a-z_][a-z0-9_]*(\.[A-Za-z0-9_]+)+\Z")


#: So alike is a key to a setting when it is one mistyped; what is less alike is somebody's own.
_SLIP = 0.75


def option(
    default: Any,
    help: str,
    *,
    low: Optional[float] = None,
    high: Optional[float] = None,
    choices: Iterable[str] = (),
    grammar: str = "",
    form: str = "",
) -> Any:
    """Declare one setting: default, consequence, what values are allowed (*form*: in words).

    A mutable default (list, dict) is copied for each record.
    """
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "choices": tuple(choices),
        "grammar": grammar,
        "form": form,
    }
    if isinstance(default, (list, dict)):
        return frozen.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return frozen.field(default=default, metadata=metadata)


#: Salt's keys that decide what hosts get: without them hosts would be given something else in
#: silence, so a value is refused, with the reason.
REFUSED: Mapping[str, str] = {
    "ext_pillar": "external pillar is not built in, and hosts would miss what it gives; "
    "put that into pillar files (#!py ones can ask other systems), or remove the setting",
    "master_tops": "external tops are not built in, and hosts would miss the states that they "
    "assign; assign them in top files, or remove the setting",
}
_NO_GIT = (
    "files come from folders alone, and hosts would miss the others; check the repository out "
    "into a folder of `file_roots`, or remove the setting"
)
#: The same for keys that mean nothing to a minion: only the master serves files.
_REFUSED_BY_MASTER: Mapping[str, str] = {"gitfs_remotes": _NO_GIT, "fileserver_backend": _NO_GIT}
#: Salt's keys with which the daemons start although nothing of them happens yet.
NOT_YET: Mapping[str, str] = {
    "schedule": "nothing runs by this schedule yet; use a timer of the host that calls catena",
    "external_auth": "nobody is let in by this yet; `cli_users` names who may use the socket",
    "publisher_acl": "nobody is let in by this yet; `cli_users` names who may use the socket",
}


@frozen.dataclass(frozen=True)
class Loaded:
    """What reading a configuration came to, beside the settings themselves."""

    #: Salt's keys that were given and have no effect here, sorted.
    without_effect: tuple[str, ...]
    #: What nothing here reads: options of modules (dotted keys) and keys that a tree made up for
    #: itself, as given. Templates and config.get see them.
    module_options: Dict[str, Any]
    #: The keys among them that look like no setting at all, sorted: shown by `config check`.
    free_keys: tuple[str, ...] = ()
    #: Sentences about the keys of NOT_YET that were given, sorted.
    not_yet: tuple[str, ...] = ()


def load(kind: Type[C], data: Mapping[str, Any], salt_keys: frozenset[str]) -> tuple[C, Loaded]:
    """Return *data* as settings of *kind*.

    Args:
        kind: a record whose fields were declared with `option`.
        data: the merged configuration files.
        salt_keys: Salt's keys that are accepted without effect.

    Raises:
        ConfigError: a key that looks like a typing error (with the nearest right one) or that is
            REFUSED, wrong type, out of range.
    """
    fields = {f.name: f for f in frozen.fields(cast(Any, kind))}
    known: Dict[str, Any] = {}
    ignored: List[str] = []
    later: List[str] = []
    modules: Dict[str, Any] = {}
    free: Dict[str, Any] = {}
    for key, value in data.items():
        if key in fields:
            known[key] = value
        elif key in REFUSED:
            if value:
                raise ConfigError(f"{key}: {REFUSED[key]}", key)
        elif key in salt_keys:
            if "worker_processes" in fields:
                _refuse_in_master(key, value)
            (later if key in NOT_YET and value else ignored).append(key)
        elif isinstance(key, str) and _MODULE_OPTION.match(key):
            modules[key] = value
        elif not isinstance(key, str) or nearest(key, [*fields, *salt_keys], _SLIP):
            raise ConfigError(unknown("setting", str(key), [*fields, *salt_keys]), key)
        else:
            free[key] = value
    try:
        settings = decode(kind, known, "config")
    except RecordError as error:
        text = _of_type(str(error))
        raise ConfigError(text, re.split(r"[.\[:]", text)[0]) from None
    for name in known:
        _check(name, getattr(settings, name), fields[name].metadata)
    said = tuple(f"{key}: {NOT_YET[key]}" for key in sorted(later))
    return settings, Loaded(tuple(sorted(ignored)), {**modules, **free}, tuple(sorted(free)), said)


def _refuse_in_master(key: str, value: Any) -> None:
    """Refuse a setting of the master's without which hosts would miss files."""
    built_in = key == "fileserver_backend" and value in ("roots", ["roots"])
    if value and key in _REFUSED_BY_MASTER and not built_in:
        raise ConfigError(f"{key}: {_REFUSED_BY_MASTER[key]}", key)


def _of_type(text: str) -> str:
    """Return the text of a type error under the setting's own name, with the usual way out."""
    name, _, fault = text.partition(".")[2].partition(": ")
    if not fault:
        return text
    if fault.startswith("expected str, got") and "NoneType" not in fault:
        fault += "; put it in quotes"
    elif fault == "expected a list, got str":
        fault += "; write it as [value] or as lines that begin with -"
    return f"{name}: {fault}"


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    if rule["choices"] and value not in rule["choices"]:
        hint = unknown("value", str(value), rule["choices"])
        raise ConfigError(f"{name}: {hint} (one of {', '.join(rule['choices'])})", name)
    if rule["low"] is not None and value < rule["low"]:
        raise ConfigError(f"{name}: {value} is below {rule['low']}", name)
    if rule["high"] is not None and value > rule["high"]:
        raise ConfigError(f"{name}: {value} is above {rule['high']}", name)
    if rule["grammar"] and value and not re.fullmatch(rule["grammar"], value):
        meant = f"is not {rule['form']}" if rule["form"] else f"does not match {rule['grammar']}"
        raise ConfigError(f"{name}: {value!r} {meant}", name)

"""Settings as frozen records whose fields carry their own range and help.

The documentation and `catena config check` use the same metadata as the check of a configuration,
so the three cannot disagree.
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

#: A dotted key (mysql.host) is a module's option: accepted, stored, and visible to config.get.
_MODULE_OPTION = lazy_pattern(r"[a-z_][a-z0-9_]*(\.[A-Za-z0-9_]+)+\Z")


#: Similarity from which an unknown key counts as a mistyped setting; below, it is a user's own
#: key.
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
    """Declare one setting: default, help, and the allowed values (*form* describes them).

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


#: Salt's keys that decide what hosts receive, with the reason for refusing them. Ignoring such a
#: key would silently give hosts something else.
REFUSED: Mapping[str, str] = {
    "ext_pillar": "external pillar is not supported, and hosts would miss its values; "
    "put that into pillar files (#!py ones can ask other systems), or remove the setting",
    "master_tops": "external tops are not supported, and hosts would miss the states that they "
    "assign; assign them in top files, or remove the setting",
}
_NO_GIT = (
    "files come from local folders only, and hosts would miss the others; check the repository "
    "out into a folder of `file_roots`, or remove the setting"
)
#: Keys that only the master refuses: a minion does not serve files, so they have no effect there.
_REFUSED_BY_MASTER: Mapping[str, str] = {"gitfs_remotes": _NO_GIT, "fileserver_backend": _NO_GIT}
#: Salt's keys that the daemons accept but do not support yet.
NOT_YET: Mapping[str, str] = {
    "schedule": "nothing runs by this schedule yet; use a timer of the host that calls catena",
    "external_auth": "nobody is admitted by this yet; `cli_users` names who may use the socket",
    "publisher_acl": "nobody is admitted by this yet; `cli_users` names who may use the socket",
}


@frozen.dataclass(frozen=True)
class Extras:
    """The keys of a configuration that are not settings of catena."""

    #: Salt's keys in the configuration that have no effect, sorted.
    without_effect: tuple[str, ...]
    #: Keys that catena itself does not read, as given: options of modules (dotted keys) and a
    #: user's own keys. Templates and config.get see them.
    module_options: Dict[str, Any]
    #: Those keys that resemble no known setting, sorted; shown by `config check`.
    free_keys: tuple[str, ...] = ()
    #: Sentences about the keys of NOT_YET in the configuration, sorted.
    not_yet: tuple[str, ...] = ()


def load(kind: Type[C], data: Mapping[str, Any], salt_keys: frozenset[str]) -> tuple[C, Extras]:
    """Return *data* as settings of *kind*.

    Args:
        kind: a record whose fields were declared with `option`.
        data: the merged configuration files.
        salt_keys: Salt's keys that are accepted without effect.

    Raises:
        ConfigError: a key is REFUSED or looks mistyped (the message names the nearest setting), or
            a value has a wrong type or is out of range.
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
    return settings, Extras(tuple(sorted(ignored)), {**modules, **free}, tuple(sorted(free)), said)


def _refuse_in_master(key: str, value: Any) -> None:
    """Refuse a setting without which hosts of this master would miss files."""
    built_in = key == "fileserver_backend" and value in ("roots", ["roots"])
    if value and key in _REFUSED_BY_MASTER and not built_in:
        raise ConfigError(f"{key}: {_REFUSED_BY_MASTER[key]}", key)


def _of_type(text: str) -> str:
    """Return the text of a type error with the setting's name and the usual remedy."""
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

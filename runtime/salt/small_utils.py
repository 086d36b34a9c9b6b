"""Stand-ins for small modules of `salt.utils`, and for the functions of `salt.utils` itself.

Until 2018 the functions of `salt.utils.path`, `files`, `data` and others were in `salt.utils`.
"""

from __future__ import annotations

import copy
import datetime
import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, MutableMapping, Optional

from catena.core import nested
from catena.core.errors import CommandExecutionError
from catena.core.files import write_durable
from catena.runtime.salt import current, more_utils, utils

Names = Dict[str, Any]

_JID = re.compile(r"\d{20}(?:_\d+)?\Z")
_JID_FORM = "%Y%m%d%H%M%S%f"
#: Modules whose functions older releases had in `salt.utils` itself.
_OLD = ("args", "data", "files", "path", "platform", "stringutils", "versions")
_OLD_MORE = ("functools", "hashutils", "network", "user")


def _old_names() -> Names:
    found: Names = {}
    for leaf in _OLD:
        found.update(utils.NAMES[f"salt.utils.{leaf}"]())
    for leaf in _OLD_MORE:
        found.update(more_utils.NAMES[f"salt.utils.{leaf}"]())
    # `salt.utils.join` never existed, and `compare` was compare_versions.
    found.update(compare_versions=found.pop("compare"))
    del found["join"]
    found.update(exactly_one=_exactly_one, exactly_n=_exactly, test_mode=_test_mode)
    found.update(option=_option, isorted=lambda items: sorted(items, key=str.lower))
    found.update(str_to_num=_number, ip_bracket=_bracketed, sanitize_win_path_string=str)
    found.update(decode_list=list, decode_dict=dict, is_bin_file=found["is_binary"])
    return found


def _exactly(items: Any, amount: int = 1) -> bool:
    return sum(1 for item in items if item) == amount


def _exactly_one(items: Any) -> bool:
    return _exactly(items)


def _test_mode(**kwargs: Any) -> bool:
    return any(key in ("test", "Test", "TEST") and bool(value) for key, value in kwargs.items())


def _option(
    value: str, default: Any = "", opts: Optional[Names] = None, pillar: Optional[Names] = None
) -> Any:
    for source in (opts or {}, (pillar or {}).get("master", {}), pillar or {}):
        if value in source:
            return source[value]
    return default


def _number(text: Any) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _bracketed(address: Any) -> str:
    text = str(address).strip("[]")
    return f"[{text}]" if ":" in text else text


def _update(
    dest: Any, upd: Mapping[Any, Any], recursive_update: bool = True, merge_lists: bool = False
) -> Any:
    """Merge *upd* into *dest* in place."""
    if not isinstance(dest, MutableMapping) or not isinstance(upd, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    dest.update(nested.recurse(dest, upd, merge_lists) if recursive_update else upd)
    return dest


def _merge(
    obj_a: Any,
    obj_b: Any,
    strategy: str = "smart",
    renderer: str = "yaml",
    merge_lists: bool = False,
) -> Any:
    """Return both merged, as slsutil.merge does."""
    from catena.modules import slsutil

    return slsutil.merge(current.context(), obj_a, obj_b, strategy, renderer, merge_lists)


def _merge_recurse(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    return nested.laid_over(obj_a, obj_b, merge_lists)


def _merge_list(obj_a: Mapping[Any, Any], obj_b: Mapping[Any, Any]) -> Names:
    return {key: [old, obj_b[key]] if key in obj_b else old for key, old in obj_a.items()}


def _merge_overwrite(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    return {**copy.deepcopy(obj_a), **copy.deepcopy(obj_b)}


def _ensure_key(data: Any, keys: str, delimiter: str = ":", ordered: bool = False) -> Any:
    if nested.traverse(data, keys, None, delimiter) is None:
        nested.set_at(data, keys, {}, delimiter)
    return data


def _set_key(data: Any, keys: str, value: Any, delimiter: str = ":", ordered: bool = False) -> Any:
    nested.set_at(data, keys, value, delimiter)
    return data


def _append_key(
    data: Any, keys: str, value: Any, delimiter: str = ":", ordered: bool = False
) -> Any:
    found = nested.traverse(data, keys, None, delimiter)
    if found is not None and not isinstance(found, list):
        raise TypeError(f"the last key of {keys} holds no list")
    nested.set_at(data, keys, [*(found or ()), value], delimiter)
    return data


def _dictupdate() -> Names:
    return {
        "update": _update,
        "merge": _merge,
        "merge_list": _merge_list,
        "merge_recurse": _merge_recurse,
        "merge_aggregate": _merge_overwrite,
        "merge_overwrite": _merge_overwrite,
        "ensure_dict_key": _ensure_key,
        "set_dict_key_value": _set_key,
        "append_dict_key_value": _append_key,
    }


def _gen_jid(opts: Any = None) -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime(_JID_FORM)


def _is_jid(jid: Any) -> bool:
    return isinstance(jid, str) and _JID.match(jid) is not None


def _jid_to_time(jid: Any) -> str:
    """Return "2026, Jan 02 03:04:05.000006" of a job id; "" if it is none."""
    if not _is_jid(str(jid)):
        return ""
    try:
        when = datetime.datetime.strptime(str(jid)[:20], _JID_FORM)
    except ValueError:
        return ""
    return when.strftime("%Y, %b %d %H:%M:%S.%f")


class _LazyDict(Mapping[str, Any]):
    """A mapping whose subclasses load a value at its first use (`_load(key)`)."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._dict: Names = {}
        self.loaded = False

    def _load(self, key: str) -> bool:
        raise NotImplementedError

    def _load_all(self) -> None:
        raise NotImplementedError

    def _missing(self, key: str) -> bool:
        return False

    def __getitem__(self, key: str) -> Any:
        if key not in self._dict and not self.loaded and not self._missing(key):
            self._load(key)
        return self._dict[key]

    def __len__(self) -> int:
        if not self.loaded:
            self._load_all()
        return len(self._dict)

    def __iter__(self) -> Iterator[str]:
        if not self.loaded:
            self._load_all()
        return iter(self._dict)


def _verify_fun(lazy_obj: Any, fun: str) -> None:
    if not fun:
        raise CommandExecutionError("Must specify a function to run!\nex: manage.up")
    if fun not in lazy_obj:
        raise CommandExecutionError(f"'{fun}' is not available.")


def _parse_target(expression: str) -> Optional[Dict[str, Any]]:
    """Return engine, delimiter and pattern of one part of a compound target, or None."""
    found = re.match(r"(?:(?P<engine>[A-Z])(?P<delimiter>.)?@)?(?P<pattern>.+)\Z", expression)
    return found.groupdict() if found else None


class _CkMinions:
    """Refuses to be made: the list of minions is the master's."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise CommandExecutionError(
            "salt.utils.minions.CkMinions needs the master's list of minions: ask it by "
            "publish.publish or saltutil.runner"
        )


def _rtag(opts: Mapping[str, Any]) -> str:
    return os.path.join(str(opts["cachedir"]), "pkg_refresh")  # noqa: PTH118  # a text, as in Salt


def _write_rtag(opts: Mapping[str, Any]) -> None:
    write_durable(Path(_rtag(opts)), b"")


def _clear_rtag(opts: Mapping[str, Any]) -> None:
    Path(_rtag(opts)).unlink(missing_ok=True)


def _is_refresh(opts: Mapping[str, Any], refresh: Any = None) -> bool:
    if refresh is not None and not isinstance(refresh, bool):
        return bool(utils.is_true(refresh))
    return bool(refresh) or (refresh is None and Path(_rtag(opts)).exists())


def _split_comparison(version: str) -> List[str]:
    found = re.match(r"\s*(<=>|!=|>=|<=|>>|<<|<>|>|<|=)?\s*(.*?)\s*\Z", version)
    return [found[1] or "", found[2]] if found else ["", version]


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Names]] = {
    "salt.utils": _old_names,
    "salt.utils.dictupdate": _dictupdate,
    "salt.utils.jid": lambda: {
        "gen_jid": _gen_jid,
        "is_jid": _is_jid,
        "jid_to_time": _jid_to_time,
    },
    "salt.utils.lazy": lambda: {"LazyDict": _LazyDict, "verify_fun": _verify_fun},
    "salt.utils.minions": lambda: {"parse_target": _parse_target, "CkMinions": _CkMinions},
    "salt.utils.pkg": lambda: {
        "rtag": _rtag,
        "write_rtag": _write_rtag,
        "clear_rtag": _clear_rtag,
        "is_refresh": _is_refresh,
        "check_extra_requirements": lambda pkgname, pkgver: True,
        "split_comparison": _split_comparison,
    },
}

"""Reads and checks the YAML file of a chain (`catena chain apply FILE`); makes a request of it.

    label: patch-day            # default: the file's name
    target: 'web*'              # default of the actions; [web1, web2] is a list,
    actions:                    # {grain: 'os:Debian'} another type of target
    - script: collect.sh        # relative to this file
      runas: nobody
    - apply: [web, app]
      pillar: {port: 8080}
    - install: [nginx, curl=8.5.0]
      target: web1
    - reboot                    # or {reboot: , at_time: 5}
    - highstate

Each action is a mapping that has its kind as a key; further keys are options of the kind. The CLI
uses this module, so it imports nothing of the master except the checks of actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from catena.client.requests.chains import SCRIPT_BYTES, WHEEL_BYTES, ChainAction, ChainDocument
from catena.core import ids
from catena.core.errors import RenderError, UsageError
from catena.core.files import read_limited
from catena.core.records import encode
from catena.core.suggest import unknown
from catena.master.chains.actions import ActionType, check
from catena.renderers.source import LineMap, Rendered
from catena.renderers.yaml import load_rendered

MAX_BYTES = 4 * 1024 * 1024

_KEYS = ("label", "target", "actions")
_COMMON = ("target", "repeat")
#: Types of target, named as the options of the command line.
_TARGETS = (
    "glob", "pcre", "list", "grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact",
    "ipcidr", "nodegroup", "compound",
)  # fmt: skip
#: Options of each kind of action.
_BESIDE: Mapping[ActionType, tuple[str, ...]] = {
    ActionType.script: ("runas", "group", "timeout"),
    ActionType.cmd: ("runas", "timeout"),
    ActionType.apply: ("pillar", "test"),
    ActionType.call: ("args", "kwargs"),
    ActionType.reboot: ("at_time",),
}


class BadDocumentError(UsageError):
    """A chain file is invalid; the message names file and line."""


@dataclass(frozen=True)
class ReadDocument:
    """A checked chain file as a request."""

    request: ChainDocument
    #: Files that must be uploaded first (`blob.put`), by SHA-256.
    uploads: Mapping[str, Path]


def read(path: Path) -> ReadDocument:
    """Return the chain that the file at *path* describes.

    Raises:
        BadDocumentError: unknown key (with the nearest), missing or invalid value, no such
            script; the message names file and line.
        OSError: the file can't be read.
    """
    text = read_limited(path, MAX_BYTES).decode("utf-8", "replace")
    try:
        rendered = load_rendered(text, str(path), text, LineMap())
    except RenderError as error:
        # Raise a usage error, so that the exit code is the one of an invalid request.
        raise BadDocumentError(str(error)) from None
    return _Reader(rendered, path).document()


class _Reader:
    def __init__(self, rendered: Rendered, path: Path) -> None:
        self._rendered = rendered
        self._path = path
        self._uploads: dict[str, Path] = {}

    def document(self) -> ReadDocument:
        data = self._rendered.data
        if not isinstance(data, Mapping):
            raise self._error("expected a mapping with the key actions")
        self._keys(data, _KEYS, ())
        actions = data.get("actions")
        if not isinstance(actions, list) or not actions:
            raise self._error("actions must be a list with at least one action", "actions")
        common = {key: data[key] for key in ("target",) if key in data}
        entries = tuple(
            self._entry(index, {**common, **self._action(index, item)})
            for index, item in enumerate(actions)
        )
        label = ids.label(str(data.get("label", self._path.stem)))
        return ReadDocument(ChainDocument(label, entries), dict(self._uploads))

    def _action(self, index: int, item: Any) -> dict[str, Any]:
        if isinstance(item, str):
            item = {item: None}
        if not isinstance(item, Mapping):
            names = ", ".join(ActionType.__members__)
            why = f"an action must be a mapping that has its kind as a key: {names}"
            raise self._error(why, "actions", index)
        return dict(item)

    def _entry(self, index: int, item: dict[str, Any]) -> dict[str, Any]:
        place = ("actions", index)
        kinds = [key for key in item if key in ActionType.__members__]
        names = [*ActionType.__members__]
        if not kinds:
            odd = next((k for k in item if k not in _COMMON), "")
            raise self._error(unknown("action", str(odd), names, few=True), *place)
        if len(kinds) > 1:
            raise self._error(f"an action has one kind, not {' and '.join(kinds)}", *place)
        kind = ActionType(kinds[0])
        self._keys(item, (kind.value, *_COMMON, *_BESIDE.get(kind, ())), place)
        if "target" not in item:
            raise self._error("no target: name one here or for the whole chain", *place)
        beside = {key: item[key] for key in _BESIDE.get(kind, ()) if key in item}
        if "at_time" in beside:
            beside["at_minutes"] = beside.pop("at_time")
        data = {**self._data(kind, item[kind.value], place), **beside}
        action = ChainAction(kind.value, data, str(item.get("repeat", "")))
        try:
            check(action)
        except UsageError as error:
            raise self._error(str(error), *place) from None
        tgt, tgt_type = self._target(item["target"], place)
        return {"tgt": tgt, "tgt_type": tgt_type, "action": encode(action)}

    def _target(self, value: Any, place: tuple[Any, ...]) -> tuple[str, str]:
        if isinstance(value, list):
            return ",".join(str(name) for name in value), "list"
        if not isinstance(value, Mapping):
            return str(value), "glob"
        if len(value) != 1 or next(iter(value)) not in _TARGETS:
            odd = next((str(key) for key in value if key not in _TARGETS), "several types")
            raise self._error(unknown("type of target", odd[:80], _TARGETS, few=True), *place)
        kind, text = next(iter(value.items()))
        return str(text), str(kind)

    def _data(self, kind: ActionType, value: Any, place: tuple[Any, ...]) -> dict[str, Any]:
        if kind is ActionType.script:
            path = self._file(value, SCRIPT_BYTES, place)
            return {"sha256": self._upload(path, SCRIPT_BYTES), "name": path.name}
        if kind is ActionType.cmd:
            return {"cmd": value}
        if kind is ActionType.apply:
            # Keep whether one SLS was given as text or as a list of one.
            one = isinstance(value, list) and len(value) == 1
            return {"mods": _listed(value), **({"listed": True} if one else {})}
        if kind is ActionType.call:
            return {"fun": value}
        if kind in (ActionType.install, ActionType.upgrade, ActionType.remove):
            return {"packages": [package(str(item)) for item in _listed(value)]}
        if kind is ActionType.upgrade_agent:
            return self._agent(str(value), place)
        if value not in (None, True):
            raise self._error(f"{kind.value} takes no value", *place)
        return {}

    def _agent(self, value: str, place: tuple[Any, ...]) -> dict[str, Any]:
        if not value.endswith(".whl"):
            return {"version": value}
        path = self._file(value, WHEEL_BYTES, place)
        return {"sha256": self._upload(path, WHEEL_BYTES), "filename": path.name}

    def _file(self, value: Any, limit: int, place: tuple[Any, ...]) -> Path:
        path = self._path.parent / str(value)
        if not path.is_file():
            raise self._error(f"there is no file {path}", *place)
        if path.stat().st_size > limit:
            raise self._error(f"{path} is larger than {limit} bytes", *place)
        return path

    def _upload(self, path: Path, limit: int) -> str:
        digest = sha256(read_limited(path, limit)).hexdigest()
        self._uploads[digest] = path
        return digest

    def _keys(self, data: Mapping[Any, Any], known: Sequence[str], place: tuple[Any, ...]) -> None:
        for key in data:
            if key not in known:
                raise self._error(unknown("key", str(key)[:80], known, few=True), *place, key)

    def _error(self, reason: str, *place: Any) -> BadDocumentError:
        found = self._rendered.place(*place) if place else self._rendered.name
        return BadDocumentError(f"{found}: {reason}")


def package(text: str) -> list[str]:
    """Return NAME or NAME=VERSION as the pair [name, version]."""
    name, _, version = text.partition("=")
    return [name, version]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]

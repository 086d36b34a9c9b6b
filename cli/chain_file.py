"""A chain written down as YAML (`catena chain apply FILE`).

label: patch-night
target: 'web*'            # for every action that names none; or {grain: 'os:Debian'}
actions:
- script: scripts/prepare.sh   # beside this file
  runas: joe
- apply: [web, web.tls]
  pillar: {port: 8080}
  target: 'web1'
- reboot
- highstate
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from catena.cli.chain_actions import action
from catena.cli.targets import OPTIONS
from catena.client.connection import MasterClient
from catena.client.requests import ChainDocument
from catena.core.errors import UsageError
from catena.core.suggest import unknown

_KINDS = frozenset(
    "script cmd apply highstate install upgrade remove upgrade_agent reboot call".split()
)
_EXTRAS = frozenset({"target", "runas", "timeout", "pillar", "at_time", "repeat"})
_TOP = frozenset({"label", "target", "actions"})


def read_document(client: MasterClient, file: str) -> ChainDocument:
    """Return the chain that *file* describes; the files it names are uploaded.

    Raises:
        UsageError: the file does not describe a chain; the message names the action by number.
    """
    from catena.renderers.yaml import load

    path = Path(file)
    data = load(path.read_text(encoding="utf-8"), file)
    if not isinstance(data, dict) or not isinstance(data.get("actions"), list):
        raise UsageError(f"{file}: a chain is a mapping with label and a list of actions")
    for key in data:
        if key not in _TOP:
            raise UsageError(f"{file}: {unknown('key', str(key), _TOP)}")
    entries: List[Dict[str, Any]] = []
    for number, item in enumerate(data["actions"]):
        where = f"{file}: action {number}"
        entries.append(_entry(client, path.parent, item, data.get("target"), where))
    return ChainDocument(str(data.get("label") or path.stem), tuple(entries))


def _entry(
    client: MasterClient, folder: Path, item: Any, target: Any, where: str
) -> Dict[str, Any]:
    fields = {item: True} if isinstance(item, str) else item
    if not isinstance(fields, dict):
        raise UsageError(f"{where}: an action is a word or a mapping")
    for key in fields:
        if key not in _KINDS | _EXTRAS:
            raise UsageError(f"{where}: {unknown('key', str(key), _KINDS | _EXTRAS)}")
    tgt, tgt_type = _target(fields.get("target", target), where)
    try:
        made = action(client, _options(fields, folder))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return {"tgt": tgt, "tgt_type": tgt_type, "action": asdict(made)}


def _options(fields: Mapping[str, Any], folder: Path) -> Dict[str, Any]:
    """Return the fields of one action as the options of the command line."""
    options: Dict[str, Any] = {"at_time": 0, **fields}
    for kind in ("install", "upgrade", "remove"):
        if kind in options:
            found = options[kind]
            options[kind] = tuple(found) if isinstance(found, list) else (str(found),)
    if isinstance(options.get("apply"), list):
        options["apply"] = ",".join(str(name) for name in options["apply"])
    if isinstance(options.get("script"), str):
        options["script"] = str(folder / options["script"])
    wheel = options.get("upgrade_agent")
    if isinstance(wheel, str) and wheel.endswith(".whl"):
        options["upgrade_agent"] = str(folder / wheel)
    return options


def _target(value: Any, where: str) -> Tuple[str, str]:
    """Return a target and its type; a plain text is a glob, {type: text} is any other."""
    if isinstance(value, str):
        return value, "glob"
    if isinstance(value, list):
        return ",".join(str(name) for name in value), "list"
    types = [kind for kind, _ in OPTIONS.values()] + ["glob"]
    if isinstance(value, dict) and len(value) == 1:
        kind, text = next(iter(value.items()))
        if kind not in types:
            raise UsageError(f"{where}: {unknown('target type', str(kind), types)}")
        return str(text), str(kind)
    raise UsageError(f"{where}: no target; name one here or for the whole chain")

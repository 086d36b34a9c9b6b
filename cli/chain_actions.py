"""The options that describe one action of a chain, and the action they describe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar

import click

from catena.cli.arguments import split, value
from catena.cli.hidden_arguments import HIDDEN_OPTIONS, any_hidden, read_mapping, with_hidden
from catena.client.connection import MasterClient
from catena.client.requests.chains import SCRIPT_BYTES, WHEEL_BYTES, ChainAction
from catena.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False)

#: In the order of --help. Exactly one of the first ten selects the kind of action.
_OPTIONS = (
    click.option("--script", type=_FILE, help="Run this script on the minion."),
    click.option("--cmd", help="Run this command line in a shell."),
    click.option("--apply", metavar="SLS[,SLS]", help="Apply these SLS files."),
    click.option("--highstate", is_flag=True, help="Apply the highstate."),
    click.option("--install", multiple=True, metavar="PKG[=VERSION]", help="Install a package."),
    click.option("--upgrade", multiple=True, metavar="PKG[=VERSION]", help="Upgrade a package."),
    click.option("--remove", multiple=True, metavar="PKG", help="Remove a package."),
    click.option("--upgrade-agent", metavar="WHEEL|VERSION", help="Upgrade catena on the minion."),
    click.option("--reboot", is_flag=True, help="Reboot; the chain continues after the boot."),
    click.option("--call", metavar="FUN [ARGS]", help="Call an execution function."),
    *HIDDEN_OPTIONS,
    click.option("--pillar-file", metavar="FILE", help="Pillar for --apply from a file (YAML)."),
    click.option("--runas", help="User for --script and --cmd."),
    click.option("--timeout", type=click.IntRange(min=1), help="Seconds for --script and --cmd."),
    click.option("--pillar", help="Pillar for --apply, as YAML or JSON."),
    click.option("--at-time", type=click.IntRange(0, 1440), help="Minutes before "
                 "--reboot."),
    click.option("--repeat", type=click.Choice(["idempotent", "once"]), default=None,
                 help="After a crash during the action: run it again, or stop and ask."),
)  # fmt: skip
_KINDS = "script cmd apply highstate install upgrade remove upgrade_agent reboot call".split()


def action_options(command: F) -> F:
    """Give *command* the options that describe an action."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def packages(names: Tuple[str, ...]) -> List[List[str]]:
    """Return [[name, version]] for `name` and `name=version` words; version "" for the newest."""
    return [[part for part in word.partition("=")[::2]] for word in names]


def action(client: MasterClient, options: Mapping[str, Any]) -> ChainAction:
    """Return the action that *options* describe; upload the files that it needs.

    Raises:
        UsageError: there is no action, more than one, or an option that does not apply to it.
    """
    asked = [kind for kind in _KINDS if options.get(kind)]
    if len(asked) != 1:
        raise UsageError(
            "give exactly one action: " + ", ".join(f"--{k.replace('_', '-')}" for k in _KINDS)
        )
    kind = asked[0]
    _refuse_strays(kind, options)
    return ChainAction(kind, _data(client, kind, options), options.get("repeat") or "")


def _refuse_strays(kind: str, options: Mapping[str, Any]) -> None:
    homes = {
        "runas": ("script", "cmd"),
        "timeout": ("script", "cmd"),
        "pillar": ("apply",),
        "pillar_file": ("apply",),
        "at_time": ("reboot",),
    }
    for name, kinds in homes.items():
        if options.get(name) is not None and kind not in kinds:
            raise UsageError(
                f"--{name.replace('_', '-')} needs {' or '.join('--' + k for k in kinds)}"
            )
    if kind != "call" and any_hidden(options):
        raise UsageError("--kwargs-file, --stdin and --kwarg-env need --call")


def _data(client: MasterClient, kind: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    given = options[kind]
    if kind in {"script", "cmd"}:
        extra = {name: options[name] for name in ("runas", "timeout") if options.get(name)}
        body = upload(client, Path(given)) if kind == "script" else {"cmd": given}
        return {**body, **extra}
    if kind == "apply":
        pillar = _pillar(options.get("pillar"), options.get("pillar_file"))
        return {"mods": given.split(","), **({"pillar": pillar} if pillar else {})}
    if kind in {"install", "upgrade", "remove"}:
        return {"packages": packages(given)}
    if kind == "upgrade_agent":
        path = Path(given)
        if path.suffix == ".whl" or os.path.exists(path):  # noqa: PTH110  # False where it may not look
            found = upload(client, path)
            return {"sha256": found["sha256"], "filename": found["name"]}
        return {"version": given}
    if kind == "reboot":
        return {"at_minutes": options.get("at_time") or 0}
    if kind == "call":
        return _call(given, options)
    return {}


def _call(text: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--call {text!r}: {error}") from None
    args, kwargs = split(words[1:])
    kwargs = with_hidden(kwargs, options)
    return {"fun": words[0] if words else "", "args": args, "kwargs": kwargs}


def _pillar(given: Any, file: Optional[str] = None) -> Optional[Dict[str, Any]]:
    if given and file:
        raise UsageError("give --pillar or --pillar-file, not both")
    if file:
        return read_mapping(file, "--pillar-file")
    if not given:
        return None
    found = value(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise UsageError("--pillar must be a mapping: '{key: value}'")
    return found


def upload(client: MasterClient, path: Path) -> Dict[str, Any]:
    """Send a file to the master; return the data by which an action refers to it.

    Raises:
        UsageError: the file cannot be read, or is too large for an action.
    """
    limit = WHEEL_BYTES if path.suffix == ".whl" else SCRIPT_BYTES
    try:
        if path.stat().st_size > limit:
            raise UsageError(f"{path}: larger than {limit} bytes; put it into the file roots")
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    from catena.cli.output.transfer import upload as send

    return {"sha256": send(client, path, content), "name": path.name}

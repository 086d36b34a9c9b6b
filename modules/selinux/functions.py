"""selinux.*: mode, booleans and modules; the contexts of files and ports are in policy.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.selinux import parse
from catena.modules.selinux.policy import (
    fcontext_add_policy,
    fcontext_apply_policy,
    fcontext_delete_policy,
    fcontext_get_policy,
    fcontext_policy_is_applied,
    filetype_id_to_string,
    port_add_policy,
    port_delete_policy,
    port_get_policy,
    port_modify_policy,
)
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth

__all__ = [
    "fcontext_add_policy",
    "fcontext_apply_policy",
    "fcontext_delete_policy",
    "fcontext_get_policy",
    "fcontext_policy_is_applied",
    "filetype_id_to_string",
    "port_add_policy",
    "port_delete_policy",
    "port_get_policy",
    "port_modify_policy",
]

_KERNEL = (Path("/sys/fs/selinux"), Path("/selinux"))
_CONFIG = Path("/etc/selinux/config")
_LINE = re.compile(r"^[ \t]*SELINUX[ \t]*=[ \t]*(\w*)[^\n]*$", re.MULTILINE)
#: Seconds: the policy is compiled again.
_DEADLINE = 600
_SEMANAGE = "policycoreutils-python-utils"
_MODES = {"enforcing": "1", "permissive": "0", "disabled": "0"}


@function(reads=True)
def selinux_fs_path(context: Context) -> Optional[str]:
    """Return where the kernel shows SELinux; None if it is disabled."""
    found = [one for one in _KERNEL if (one / "enforce").is_file()]
    return str(found[0]) if found else None


@function(reads=True)
def getenforce(context: Context) -> str:
    """Return the mode of the kernel: Enforcing, Permissive or Disabled."""
    folder = selinux_fs_path(context)
    if folder is None:
        return "Disabled"
    try:
        text = Path(folder, "enforce").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "Disabled"
    return "Permissive" if text.strip() == "0" else "Enforcing"


@function(reads=True)
def getconfig(context: Context) -> Optional[str]:
    """Return the mode at boot: Enforcing, Permissive or Disabled; None if none is configured."""
    try:
        found = _LINE.search(_CONFIG.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return None
    return found.group(1).capitalize() if found else None


@function()
def setenforce(context: Context, mode: str) -> str:
    """Set the mode of the kernel and at boot; return that of the kernel.

    Args:
        context: the host.
        mode: enforcing, permissive or disabled, which takes effect at the next boot.

    Raises:
        CommandExecutionError: the kernel refuses it, or the configuration can't be written.
        UsageError: no such mode.
    """
    from catena.modules.file.content import encode, write

    word = str(mode).lower()
    if word not in _MODES:
        raise UsageError(f"Invalid mode {str(mode)[:80]}")
    try:
        text = _CONFIG.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as problem:
        raise CommandExecutionError(
            f"Could not read SELinux config file: {_CONFIG}: {problem.strerror}"
        ) from problem
    folder = selinux_fs_path(context)
    if folder is not None:
        try:
            Path(folder, "enforce").write_text(_MODES[word], encoding="ascii")
        except OSError as problem:
            raise CommandExecutionError(
                f"Could not write SELinux enforce file: {problem.strerror}"
            ) from problem
    line = f"SELINUX={word}"
    wanted = _LINE.sub(line, text) if _LINE.search(text) else f"{text.rstrip()}\n{line}\n"
    if wanted != text:
        write(_CONFIG, encode(wanted))
    return getenforce(context)


@function(reads=True)
def list_sebool(context: Context) -> Dict[str, Dict[str, str]]:
    """Return State, Default and Description of every boolean.

    Raises:
        CommandExecutionError: semanage is not installed, or the policy can't be read.
    """
    words = ["semanage", "boolean", "--list"]
    return parse.booleans(programs.need(context, words, _SEMANAGE, timeout=_DEADLINE))


@function(reads=True)
def getsebool(context: Context, boolean: str) -> Dict[str, str]:
    """Return State, Default and Description of a boolean; {} if there is none.

    Raises:
        CommandExecutionError: semanage is not installed, or the policy can't be read.
    """
    return list_sebool(context).get(str(boolean), {})


@function()
def setsebool(context: Context, boolean: str, value: Any, persist: Any = False) -> bool:
    """Set a boolean, with *persist* also at boot; return True.

    Raises:
        CommandExecutionError: setsebool is not installed, or failed.
        UsageError: *value* is neither on nor off.
    """
    return setsebools(context, {boolean: value}, persist)


@function()
def setsebools(context: Context, pairs: Mapping[str, Any], persist: Any = False) -> bool:
    """Set several booleans by one command, with *persist* also at boot; return True.

    Raises:
        CommandExecutionError: setsebool is not installed, or failed.
        UsageError: *pairs* is no mapping, or a value is neither on nor off.
    """
    if not isinstance(pairs, Mapping):
        raise UsageError(f"pairs must be a mapping of booleans, not {str(pairs)[:80]}")
    words: List[str] = []
    for name, value in pairs.items():
        word = parse.on_or_off(value)
        if word is None:
            raise UsageError(f"{str(value)[:80]} is not a valid value for the boolean {name}")
        words.append(f"{parse.checked(name, 'boolean')}={word}")
    if words:
        options = ["-P"] if truth(persist) else []
        programs.need(
            context, ["setsebool", *options, *words], "policycoreutils", timeout=_DEADLINE
        )
    return True


@function(reads=True)
def list_semod(context: Context) -> Dict[str, Dict[str, Any]]:
    """Return Enabled (and Version, which newer systems do not have) of every module.

    Raises:
        CommandExecutionError: semodule is not installed, or the policy can't be read.
    """
    words = ["semodule", "--list-modules=full"]
    return parse.modules(programs.need(context, words, "policycoreutils", timeout=_DEADLINE))


@function(reads=True)
def getsemod(context: Context, module: str) -> Dict[str, Any]:
    """Return the entry of a module in list_semod; {} if there is none.

    Raises:
        CommandExecutionError: semodule is not installed, or the policy can't be read.
    """
    return list_semod(context).get(str(module), {})


def _semodule(context: Context, option: str, word: str) -> bool:
    words = ["semodule", option, word]
    programs.need(context, words, "policycoreutils", timeout=_DEADLINE)
    return True


@function()
def setsemod(context: Context, module: str, state: str) -> bool:
    """Enable or disable a module; return True.

    Raises:
        CommandExecutionError: semodule is not installed, or failed.
        UsageError: *state* is neither enabled nor disabled.
    """
    options = {"enabled": "--enable", "disabled": "--disable"}
    option = options.get(str(state).lower())
    if option is None:
        raise UsageError(f"Invalid state {str(state)[:80]}")
    return _semodule(context, option, parse.checked(module, "module"))


def module_file(context: Context, path: str) -> Path:
    """Return the local file of a module: an absolute path, or salt://.

    Raises:
        CommandExecutionError: it does not exist.
        UsageError: the path is relative.
    """
    text = str(path)
    if text.startswith("salt://"):
        from catena.modules.shared.locations import split_location

        found = context.files.fetch(*split_location(text, context.saltenv))
        if found is None:
            raise CommandExecutionError(f"{text} does not exist on the master")
        return found
    if not text.startswith("/"):
        raise UsageError(f"{text[:80]!r} is neither an absolute path nor salt://")
    if not Path(text).is_file():
        raise CommandExecutionError(f"{text} does not exist")
    return Path(text)


@function()
def install_semod(context: Context, module_path: str) -> bool:
    """Install a module from a file (absolute path, or salt://); return True.

    Raises:
        CommandExecutionError: the file does not exist, or semodule failed.
        UsageError: the path is relative.
    """
    return _semodule(context, "--install", str(module_file(context, module_path)))


@function()
def remove_semod(context: Context, module: str) -> bool:
    """Remove a module; return True.

    Raises:
        CommandExecutionError: semodule is not installed, or failed.
        UsageError: it can't be the name of a module.
    """
    return _semodule(context, "--remove", parse.checked(module, "module"))

"""cmd.*: commands and scripts as states; each execution counts as a change."""

from __future__ import annotations

import json
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.context import Context, OutputTap
from catena.core.dry_run import unguarded
from catena.core.errors import CatenaError, CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.source import meant
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.command.options import (
    RunOptions,
    Words,
    environment,
    parse_umask,
)
from catena.modules.shared.command.run import Ran, run_script
from catena.modules.shared.command.run import run as run_command
from catena.states.answers import done, failed, likely_typos, would

#: Keywords of the compiler that the cmd states receive as arguments too.
_WANTS = ("runas", "umask", "runas_password")
#: Values that a stateful command may report as `changed`.
_YES_OR_NO = ("yes", "no", "true", "false", "on", "off", "1", "0")


@dataclass(frozen=True)
class CommandOptions(RunOptions):
    """Arguments of the cmd states: those of cmd.run, and how to interpret the output."""

    #: True, or {test_name: command for test mode}: the last line of output reports the changes.
    stateful: Any = False
    ignore_timeout: bool = False
    #: Folder for chroot(2) of the command.
    root: Optional[str] = None
    unless: Any = None
    source: Optional[str] = None
    args: Any = None
    func: Any = None
    kws: Any = None


def _test_command(options: CommandOptions) -> Tuple[bool, Optional[str]]:
    """Return whether the command reports its own changes, and its command for test mode."""
    stateful = options.stateful
    if isinstance(stateful, (list, tuple)) and stateful and isinstance(stateful[0], Mapping):
        return True, stateful[0].get("test_name")
    # As in Salt, only True and a mapping mean stateful; the text "yes" does not.
    return stateful is True, None


def _told(text: str) -> Tuple[Dict[str, Any], str]:
    """Return the report of a stateful command, and its output before the report.

    The report is JSON, or a last line such as `changed=yes comment='…'`.

    Raises:
        UsageError: the output is neither.
    """
    before = ""
    try:
        data = json.loads(text)
    except ValueError:
        before, _, line = text.rstrip().rpartition("\n")
        data = _pairs(line)
    if not isinstance(data, dict):
        raise UsageError("script JSON output must be a JSON object (e.g., {})!")
    if not isinstance(data.get("changed", False), bool):
        word = str(data["changed"]).strip().lower()
        if word not in _YES_OR_NO:
            raise UsageError(f"changed={word} is neither yes nor no")
    return data, before


def _pairs(line: str) -> Dict[str, str]:
    try:
        pairs = [item.partition("=") for item in shlex.split(line)]
    except ValueError:
        pairs = [(line, "", "")]
    if not all(mark for _, mark, _ in pairs):
        raise UsageError(
            "Failed parsing script output! Stdout must be JSON or a line of name=value pairs."
        )
    return {key: value for key, _, value in pairs}


def _reinterpreted(result: StateResult) -> StateResult:
    """Return the result that a stateful command reports itself."""
    ran = result.changes
    out = str(ran.get("stdout") or "")
    if not out:
        comment = str(ran.get("stderr") or "") or (result.comment if result.result is None else "")
        return replace(result, changes={}, comment=comment)
    try:
        data, before = _told(out)
    except UsageError as problem:
        return failed(str(problem), ran)
    changed = truth(data.get("changed", False))
    comment = str(data.pop("comment", ""))
    changes = {**data, **ran, "stdout": before} if changed else {}
    return replace(result, changes=changes, comment=comment)


def _malformed(options: RunOptions) -> str:
    """Return an error for malformed arguments, or ""; test mode reports it too."""
    try:
        environment(options, None)
        parse_umask(options.umask)
    except UsageError as problem:
        return str(problem)
    return ""


def _refused(options: RunOptions) -> str:
    if options.cwd and not Path(str(options.cwd)).is_dir():
        return f'Desired working directory "{options.cwd}" is not available'
    return ""


def _judged(ran: Ran, comment: str, options: CommandOptions) -> StateResult:
    changes = ran.as_dict()
    if truth(options.bg):
        changes["retcode"] = None  # a background command has no exit code yet
    if ran.timed_out:
        return StateResult(truth(options.ignore_timeout), changes, f"{comment}, but timed out")
    return StateResult(ran.retcode == 0, changes, comment)


@state(wants=_WANTS)
def run(context: Context, /, name: str, **options: Any) -> StateResult:
    """Run a command; it succeeded when its exit code is 0 or one of success_retcodes.

    Args:
        context: the call's context.
        name: command line, read by a shell.
        options: cwd, runas, group, shell, env, prepend_path, umask, stdin, timeout, bg,
            hide_output, success_retcodes, success_stdout, success_stderr, ignore_timeout,
            stateful, root, … as in Salt.
    """
    chosen, rest = split(CommandOptions, options)
    warnings = likely_typos(CommandOptions, rest, "cmd.run")
    stateful, test_name = _test_command(chosen)
    malformed = _malformed(chosen)
    if malformed:
        return failed(malformed)
    if context.test and not test_name:
        told = would(f'Command "{name}" would have been executed', {"cmd": name})
        return replace(_reinterpreted(told) if stateful else told, warnings=warnings)
    refused = _refused(chosen)
    if refused:
        return failed(refused)
    line: Words = str(test_name) if context.test else name
    if chosen.root:
        line = ["chroot", chosen.root, chosen.shell or "/bin/sh", "-c", str(line)]
        chosen = replace(chosen, python_shell=False)
    shell = True if chosen.python_shell is None else chosen.python_shell
    try:
        # In test mode only the command of `test_name` runs, outside the guard.
        with unguarded() if context.test and test_name else nullcontext():
            tap = _own_output(context)
            ran = run_command(context, line, replace(chosen, python_shell=shell), tap)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    result = _judged(ran, f'Command "{name}" run', chosen)
    if stateful:
        result = _reinterpreted(result)
    if context.test and result.result and result.changes:
        result = replace(result, result=None)
    return replace(result, warnings=warnings)


def _own_output(context: Context) -> Optional[OutputTap]:
    """Return the listener that shows a command's output while it runs; None without one."""
    context.host.show_output()
    return context.host.listen()


def _script_source(name: str, options: CommandOptions) -> Tuple[str, Any]:
    source, args = options.source or name, options.args
    words = name.split(maxsplit=1)
    if options.source and args is None and len(words) > 1:
        args = words[1]
    return source, args or ""


@state(wants=_WANTS)
def script(context: Context, /, name: str, **options: Any) -> StateResult:
    """Run a script of the file server or of this host.

    Args:
        context: the call's context.
        name: salt://PATH or path; with `source`, any word followed by the script's arguments.
        options: source, args, template, context, defaults, and those of cmd.run.
    """
    chosen, rest = split(CommandOptions, options)
    warnings = likely_typos(CommandOptions, rest, "cmd.script")
    stateful, _ = _test_command(chosen)
    if context.test:
        return would(f"Command '{name}' would have been executed")
    refused = _refused(chosen)
    if refused:
        return failed(refused)
    source, args = _script_source(name, chosen)
    try:
        ran = run_script(context, source, args, chosen, _own_output(context))
    except CatenaError as problem:
        return failed(str(problem))
    if ran.cache_error:
        return _not_found(context, source, ran, chosen)
    result = _judged(ran, f"Command '{name}' run", chosen)
    result = _reinterpreted(result) if stateful else result
    return replace(result, warnings=warnings)


def _not_found(context: Context, source: str, ran: Ran, options: CommandOptions) -> StateResult:
    saltenv = options.saltenv or context.saltenv
    comment = f"Unable to cache script {source} from saltenv '{saltenv}'"
    if " " in source:
        comment += "; arguments belong in `args`"
    else:
        comment += meant(context, source, saltenv)
    stateful, _ = _test_command(options)
    return failed(comment, {} if stateful else {**ran.as_dict(), "cache_error": True})


@state()
def wait(context: Context, /, name: str, **options: Any) -> StateResult:
    """Run a command only when something that it watches changed."""
    return done("")


@state()
def watch(context: Context, /, name: str, **options: Any) -> StateResult:
    """Run a command only when something that it watches changed (an alias of wait)."""
    return done("")


@state()
def wait_script(context: Context, /, name: str, **options: Any) -> StateResult:
    """Run a script only when something that it watches changed."""
    return done("")


@state()
def call(
    context: Context,
    /,
    name: str,
    func: Any = None,
    args: Any = (),
    kws: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> StateResult:
    """Call a Python function that a `#!py` SLS file passes.

    Args:
        context: the call's context.
        name: free.
        func: the function; its value is reported as the change, False and 0 are failures.
        args: its arguments.
        kws: its keyword arguments.
        options: output_loglevel, hide_output: accepted.
    """
    if not callable(func):
        return failed("cmd.call needs a function, which only a #!py file can give")
    if context.test:
        return would(f"{name} would have been called")
    value = func(*(args or ()), **dict(kws or {}))
    told = value if isinstance(value, Mapping) else {}
    passed = told.get("result", False) if told else value is None or bool(value)
    changes = told.get("changes", {"retval": value}) if told else {"retval": value}
    return StateResult(bool(passed), changes, str(told.get("comment", "")))


@state()
def wait_call(context: Context, /, name: str, **options: Any) -> StateResult:
    """Call a Python function only when something that it watches changed."""
    return done("")


@state(wants=_WANTS)
def mod_watch(context: Context, /, name: str, sfun: str = "run", **options: Any) -> StateResult:
    """Run the command or script because something that it watches changed."""
    options.pop("__reqs__", None)
    if sfun in ("run", "wait", "watch", "mod_watch"):
        return run(context, name, **options)
    if sfun in ("script", "wait_script"):
        return script(context, name, **options)
    if sfun in ("call", "wait_call"):
        return call(context, name, **options)
    return failed(f"cmd.{sfun} does not work with the watch requisite")

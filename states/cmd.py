"""cmd.*: commands and scripts as states; each run is a change."""

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

#: Compiler keywords that a command needs to see.
_WANTS = ("runas", "umask", "runas_password")
#: What a stateful command may say of `changed`.
_YES_OR_NO = ("yes", "no", "true", "false", "on", "off", "1", "0")


@dataclass(frozen=True)
class CommandOptions(RunOptions):
    """Arguments of the cmd states: those of cmd.run, and how its result is read."""

    #: True, or {test_name: a command for test mode}: the last line says what changed.
    stateful: Any = False
    ignore_timeout: bool = False
    #: Folder that becomes the command's root.
    root: Optional[str] = None
    unless: Any = None
    source: Optional[str] = None
    args: Any = None
    func: Any = None
    kws: Any = None


def _test_command(options: CommandOptions) -> Tuple[bool, Optional[str]]:
    """Return whether the command tells its state itself, and its command for test mode."""
    stateful = options.stateful
    if isinstance(stateful, (list, tuple)) and stateful and isinstance(stateful[0], Mapping):
        return True, stateful[0].get("test_name")
    # Nothing else is stateful in Salt, the text "yes" neither.
    return stateful is True, None


def _told(text: str) -> Tuple[Dict[str, Any], str]:
    """Return what a stateful command said, and what it wrote before that.

    It says it as JSON, or as `changed=yes comment='…'` on its last line.

    Raises:
        UsageError: it is neither.
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
    """Return the result that a stateful command itself tells."""
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
    """Return what is wrong with how it is written, which test mode tells too."""
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
        changes["retcode"] = None  # nobody waits for it
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
        # In test mode this is the command that the state has for it.
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
    """Return what takes the output of a state's own command while it runs."""
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
        name: salt://PATH or path; beside `source` any word, and after it the script's arguments.
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
    """Run a command only when something that it watches changed (another name of wait)."""
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
    """Call a Python function that a `#!py` SLS file hands over.

    Args:
        context: the call's context.
        name: free.
        func: the function; what it returns is the change, and False or 0 a failure.
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

"""openscap.*: check this host against a security policy with oscap, and send the results."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError, CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import listed, truth
from catena.modules.shared.command.run import Ran

#: Seconds for one evaluation.
_SECONDS = 3600.0
#: oscap's exit codes without an error: all rules passed, some failed.
_DONE = (0, 2)
#: Options of openscap.xccdf that take a value.
_VALUED = frozenset({"--profile", "--rule", "--tailoring-file", "--tailoring-id"})
#: Further options of openscap.xccdf, without a value.
_PLAIN = frozenset({"--fetch-remote-resources", "--oval-results", "--remediate"})
#: Keyword arguments of openscap.xccdf_eval -> oscap's options.
_OPTIONS: Mapping[str, str] = {
    "profile": "--profile",
    "rule": "--rule",
    "tailoring_file": "--tailoring-file",
    "tailoring_id": "--tailoring-id",
    "results": "--results",
    "report": "--report",
}
_ID = re.compile(r"[A-Za-z0-9_.:/-]+\Z")


def eval_words(params: str) -> List[str]:
    """Return the arguments of `oscap xccdf` from the text of openscap.xccdf.

    Args:
        params: `eval --profile ID FILE`, with the options of _VALUED and _PLAIN.

    Raises:
        UsageError: it is no evaluation, has another option, or names no file.
    """
    try:
        words = shlex.split(str(params))
    except ValueError as error:
        raise UsageError(f"openscap: {error}") from None
    if not words or words[0] != "eval":
        raise UsageError("openscap.xccdf: the first word must be 'eval'")
    options: List[str] = []
    files: List[str] = []
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _VALUED:
            given = value if equals else next(rest, "")
            if not given or given.startswith("-"):
                raise UsageError(f"openscap.xccdf: {name} needs a value")
            options += [name, given]
        elif word in _PLAIN:
            options.append(word)
        elif word.startswith("-"):
            known = ", ".join(sorted((*_VALUED, *_PLAIN)))
            raise UsageError(f"openscap.xccdf: {word} is none of {known}")
        else:
            files.append(word)
    if len(files) != 1:
        raise UsageError("openscap.xccdf: name exactly one XCCDF file")
    return ["eval", *options, *files]


def outcome(ran: Ran, upload_dir: str) -> Dict[str, Any]:
    """Return Salt's result of an evaluation."""
    return {
        "success": ran.retcode in _DONE,
        "upload_dir": upload_dir,
        "error": ran.stderr if ran.retcode else "",
        "returncode": ran.retcode,
    }


@function()
def xccdf(context: Context, params: str) -> Dict[str, Any]:
    """Run `oscap xccdf eval` and send the results to the master by cp.push_dir.

    Args:
        context: the host.
        params: the arguments of oscap xccdf, as "eval --profile ID /usr/share/…-xccdf.xml".

    Returns {"success", "upload_dir", "error", "returncode"}; rules that fail are a success of the
    evaluation (return code 2).
    """
    try:
        words = eval_words(params)
    except UsageError as error:
        return {"success": False, "error": str(error), "upload_dir": None, "returncode": None}
    *options, file = words[1:]
    return _evaluated(context, options, file, [])


@function()
def xccdf_eval(
    context: Context, /, xccdffile: str, ovalfiles: Any = None, **kwargs: Any
) -> Dict[str, Any]:
    """Run `oscap xccdf eval` with options by name, and send the results to the master.

    Args:
        context: the host.
        xccdffile: the policy.
        ovalfiles: OVAL definition files.
        kwargs: profile, rule (one or a list), tailoring_file, tailoring_id, remediate,
            fetch_remote_resources, oval_results, results, report.
    """
    options: List[str] = []
    for name, value in kwargs.items():
        if name.startswith("__"):
            continue
        option = _OPTIONS.get(name)
        if option:
            for one in listed(value) if name == "rule" else [value]:
                options += [option, _value(name, one)]
        elif f"--{name.replace('_', '-')}" in _PLAIN:
            options += [f"--{name.replace('_', '-')}"] if truth(value) else []
        else:
            known = ", ".join(sorted((*_OPTIONS, "remediate", "fetch_remote_resources")))
            raise UsageError(f"openscap.xccdf_eval: {name} is none of {known}")
    files = [_value("ovalfiles", one) for one in listed(ovalfiles)]
    return _evaluated(context, options, _value("xccdffile", xccdffile), files)


def _value(name: str, value: Any) -> str:
    text = str(value)
    if _ID.match(text) is None or text.startswith("-"):
        raise UsageError(f"openscap: {name}: {text[:80]!r} is no id or path")
    return text


def _evaluated(
    context: Context, options: Sequence[str], file: str, ovals: Sequence[str]
) -> Dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="catena-openscap-"))
    try:
        ran = _run(context, options, file, ovals, folder)
        if ran.retcode not in _DONE:
            return outcome(ran, "")
        _gather(options, folder)
        context.call("cp.push_dir", str(folder))
        return outcome(ran, str(folder))
    except CatenaError as error:
        return {"success": False, "error": str(error), "upload_dir": None, "returncode": None}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    context: Context, options: Sequence[str], file: str, ovals: Sequence[str], folder: Path
) -> Ran:
    words = ["oscap", "xccdf", "eval", *options]
    for option, name in (("--results", "results.xml"), ("--report", "report.html")):
        words += [] if option in options else [option, str(folder / name)]
    return programs.look(context, [*words, file, *ovals], "openscap-scanner", timeout=_SECONDS)


def _gather(options: Sequence[str], folder: Path) -> None:
    """Copy results that the caller wanted elsewhere into the folder that is sent.

    Raises:
        CommandExecutionError: oscap did not write one.
    """
    pairs: Sequence[Tuple[str, str]] = list(zip(options, options[1:]))
    for option, path in pairs:
        if option in ("--results", "--report"):
            try:
                shutil.copy(path, folder)
            except OSError as error:
                raise CommandExecutionError(f"oscap wrote no {path}: {error}") from None

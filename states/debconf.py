"""debconf.*: answers to the questions of Debian packages, before they are installed."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.redact import MASK
from catena.core.types import StateResult
from catena.modules import debconf
from catena.modules.shared.arguments import mapped, truth
from catena.states.answers import done, failed, would

_REFUSALS = (UsageError, CommandExecutionError)


def _answers(name: str, data: Any) -> Dict[str, Dict[str, str]]:
    """Return type and value of each question.

    Raises:
        UsageError: *data* has another form.
    """
    found = {}
    for question, given in mapped(data).items():
        if not isinstance(given, Mapping) or "type" not in given or "value" not in given:
            raise UsageError(f"data: {question} needs a type and a value")
        kind, value = str(given["type"]), given["value"]
        if kind == "boolean":
            value = "true" if truth(value) else "false"
        debconf.line_of(name, question, kind, value)
        found[str(question)] = {"type": kind, "value": str(value)}
    return found


@state(name="set")
def set_(context: Context, /, name: str, data: Any, **kwargs: Any) -> StateResult:
    """Make sure that questions of a package have these answers.

    Args:
        context: the call's context.
        name: of the package.
        data: {question: {type: string, value: the answer}}.
        kwargs: accepted and ignored.
    """
    try:
        wanted = _answers(name, data)
        current = debconf.selections().get(name, [])
    except _REFUSALS as problem:
        return failed(str(problem))
    kept = []
    changes: Dict[str, str] = {}
    for question, one in wanted.items():
        if [question, one["type"], one["value"]] in current:
            kept.append(question)
            continue
        shown = MASK if debconf.is_secret(question, one["type"]) else one["value"]
        if context.test:
            changes[question] = f"New value: {shown}"
            continue
        try:
            context.call("debconf.set", name, question, one["type"], one["value"])
        except _REFUSALS as problem:
            changes[question] = "Failed to set!"
            return failed(f"Some settings failed to be applied. {problem}", changes)
        changes[question] = shown
    if not changes:
        return done("All specified answers are already set")
    told = f"Unchanged answers: {' '.join(kept)} " if kept else ""
    return would(told, changes) if context.test else done(told, changes)


@state()
def set_file(context: Context, /, name: str, source: str, **kwargs: Any) -> StateResult:
    """Make sure that questions have the answers in a file.

    Args:
        context: the call's context.
        name: of the state.
        source: address of the file, in the format of debconf-set-selections.
        kwargs: accepted and ignored.
    """
    if context.test:
        return would("Debconf selections would have been set.")
    try:
        found = context.call("debconf.set_file", source, context.saltenv)
    except _REFUSALS as problem:
        return failed(f"Unable to set debconf selections from file. {problem}")
    if not found:
        return failed("Unable to set debconf selections from file.")
    return done("Debconf selections were set.")

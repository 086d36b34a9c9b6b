"""Action chains as text: a block per minion, a line per action."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Sequence

from catena.cli.output.table import clock, table
from catena.cli.output.tags import NESTED, spoken
from catena.cli.output.text import paint, printable

if TYPE_CHECKING:
    from catena.client.replies.chains import (
        ActionView,
        ChainEventItem,
        ChainLine,
        ChainView,
        CleanWaitView,
        PauseView,
    )

_HUES = {"Completed": "green", "Failed": "light_red", "Picked Up": "yellow", "Queued": "dim"}
_CHAIN_HUES = {"done": "green", "failed": "light_red", "cancelled": "light_red"}

#: Number of last output lines of a command that are shown without --full.
_LINES_SHOWN = 5
#: Maximum number of lines of a failed action's comment that are shown without --full.
_LINES_OF_FAILURE = 12

#: Events of a chain that do not change its state but are shown to those who watch it.
_PAUSING = ("paused", "continued")

#: Event of a chain whose start is held back on a minion, or sent later -> text.
_HOLDING = {"held_back": "held back", "handed_over": "sent"}

#: State of a host reached by SSH -> text.
_OVER_SSH = {
    "away": "not reached over SSH",
    "refused": "waits for a person",
    "unfit": "cannot be used over SSH",
    "reached": "reached again",
}


def listing(rows: List[ChainLine]) -> str:
    """Return chains as a table, newest first."""
    shown: List[Dict[str, Any]] = [
        {
            **vars(row),
            "state": row.state + _paused(row.paused) + _behind(row.cleans),
            "due": clock(row.due, True),
            "executions": ", ".join(f"{n} {word}" for word, n in row.counts.items()),
        }
        for row in rows
    ]
    columns = ("id", "label", "state", "due", "actions", "minions", "executions", "user")
    return table(columns, shown)


def _paused(pauses: Sequence[PauseView]) -> str:
    """Return where a chain is paused, as an appendix to its state."""
    if not pauses:
        return ""
    where = [pause.minion for pause in pauses if pause.minion]
    if len(where) < len(pauses):
        return ", paused"
    return f", paused on {printable(where[0])}" + (
        f" and {len(where) - 1} more" * (len(where) > 1)
    )


def _behind(cleans: Sequence[CleanWaitView]) -> str:
    """Return where a chain waits for the clean-up of another, as an appendix to its state."""
    if not cleans:
        return ""
    more = f" and {len(cleans) - 1} more" * (len(cleans) > 1)
    return f", waits for a clean-up on {printable(cleans[0].minion)}{more}"


def named(line: Any, ref: str) -> str:
    """Return the name of a chain for people; its number distinguishes chains of one label.

    Args:
        line: the master's answer; an older master omits fields.
        ref: how the user referred to the chain.
    """
    if not isinstance(line, dict) or "id" not in line or "label" not in line:
        return printable(ref)
    return f"chain {line['id']} {printable(str(line['label']))}"


def chain_text(view: ChainView, colour: bool, full: bool = False) -> str:
    """Return one chain with all details; *full*: with all output of its commands."""
    return "\n".join(_chain(view, colour, full))


def _chain(view: ChainView, colour: bool, full: bool) -> Iterator[str]:
    state = paint(view.state, _CHAIN_HUES.get(view.state, "yellow"), colour)
    reason = f" ({printable(view.reason)})" if view.reason else ""
    paused = _paused(view.paused) + _behind(view.cleans)
    yield f"Chain {view.id} {printable(view.label)}: {state}{paused}{reason}"
    facts = [f"by {view.user}", f"due {clock(view.due, True)}"]
    if view.ended:
        facts.append(f"ended {clock(view.ended, True)}")
    if view.epoch > 1:
        facts.append(f"run {view.epoch}")
    if view.jids:
        facts.append(f"job {view.jids[0]}")
    yield "  " + ", ".join(facts)
    for pause in view.paused:
        where = f" on {pause.minion}" if pause.minion else ""
        yield printable(f"  paused{where} by {pause.by} since {clock(pause.since, True)}")
    for minion in view.minions:
        yield ""
        head = f"{minion.minion}: {minion.status}, {minion.note}"
        yield paint(printable(head), _HUES.get(minion.status, ""), colour)
        for action in minion.actions:
            yield from _action(action, colour, full)


def _action(action: ActionView, colour: bool, full: bool) -> Iterator[str]:
    status = paint(f"{action.status:9}", _HUES.get(action.status, ""), colour)
    times = f"{clock(action.started)} .. {clock(action.ended)}"
    tail = printable(action.summary)
    yield f"  {action.sort_order:2} {status} {times:24} {printable(action.title)}" + (
        f"  [{tail}]" if tail else ""
    )
    # Only failed or waiting actions need an explanation.
    said = action.comment if action.status == "Failed" else ""
    for line in printable(spoken(said or action.reason)).splitlines()[
        : None if full else _LINES_OF_FAILURE
    ]:
        if action.status != "Completed":
            yield f"       {line}"
    # The comment of a failed action already ends with its last lines of output.
    if full or action.status != "Failed":
        yield from _written(action.changes, full)
    if action.waits:
        until = f", until {clock(action.until, True)}" if action.until else ""
        yield f"       {printable(action.waits)}{until}"


def _written(changes: Any, full: bool) -> Iterator[str]:
    """Yield output of an action's command or script: its last lines, or all."""
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    rows = inner.values() if isinstance(inner, Mapping) else ()
    found = [row["changes"] for row in rows if isinstance(row, Mapping) and "changes" in row]
    for written in found:
        for stream in ("stdout", "stderr"):
            text = written.get(stream) if isinstance(written, Mapping) else None
            lines = printable(text).splitlines() if isinstance(text, str) else []
            left = 0 if full else max(0, len(lines) - _LINES_SHOWN)
            if left:
                yield f"       {stream}: {left} more lines; show them with --full"
            yield from (f"       | {line}" for line in lines[left:])


def event_lines(view: ChainView, item: ChainEventItem, colour: bool) -> Iterator[str]:
    """Yield the text of one event of a watched chain: a transition of an action or the chain."""
    data, at = item.data, clock(datetime.fromisoformat(item.stamp).timestamp())
    if "host" in data:
        said = _OVER_SSH.get(data["host"], data["host"])
        detail = f": {printable(data['detail'])}" if data.get("detail") else ""
        yield f"{at}  {data['minion']:16} {said}{detail}"
        return
    if "action" not in data:
        # Tags below catena/chain/<id>/<state> are about chunk files and not shown.
        if data.get("event") in _HOLDING and item.tag.count("/") == 3:
            title = f"chain {data['chain']} {printable(data['label'])}"
            what = f"{_HOLDING[data['event']]} {printable(data['reason'])}"
            yield paint(f"{at}  {title}: {what}", "bold", colour)
            return
        if data.get("event") in _PAUSING and item.tag.count("/") == 3:
            where = f" {printable(data['reason'])}" if data.get("reason") else ""
            title = f"chain {data['chain']} {printable(data['label'])}"
            yield paint(f"{at}  {title}: {data['event']}{where} by {data['by']}", "bold", colour)
            return
        if "state" in data and item.tag.count("/") == 3:
            reason = f": {printable(data['reason'])}" if data.get("reason") else ""
            hue = _CHAIN_HUES.get(data["state"], "bold")
            title = f"chain {data['chain']} {printable(data['label'])}"
            yield paint(f"{at}  {title}: {data['state']}{reason}", hue, colour)
        return
    titles = {
        action.action_id: f"{action.sort_order} {action.title}"
        for minion in view.minions
        for action in minion.actions
    }
    title = printable(titles.get(data["action"], f"action {data['action']}"))
    status = paint(f"{data['status']:9}", _HUES.get(data["status"], ""), colour)
    reason = f"  ({printable(data['reason'])})" if data.get("reason") else ""
    yield f"{at}  {data['minion']:16} {status} {title}{reason}"
    if data["status"] == "Failed" and data.get("comment") != data.get("reason"):
        yield from _failure_lines(str(data.get("comment", "")))


def _failure_lines(comment: str) -> Iterator[str]:
    """Yield why an action failed: its comment, or that of the failed states in it."""
    text = printable(spoken(comment))
    for line in (text.partition(NESTED)[2] or text).strip().splitlines()[:_LINES_OF_FAILURE]:
        yield f"       {line}"

"""Action chains for people: a block per minion, a line per action."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, Sequence

from catena.cli.output.table import clock, table
from catena.cli.output.tags import spoken
from catena.cli.output.text import paint, printable

_HUES = {"Completed": "green", "Failed": "light_red", "Picked Up": "yellow", "Queued": "dim"}
_CHAIN_HUES = {"done": "green", "failed": "light_red", "cancelled": "light_red"}

#: Last lines of a command's output that are shown without --full.
_LINES_SHOWN = 5

#: Where a host stands that SSH reaches -> in words.
_OVER_SSH = {
    "away": "not reached over SSH",
    "refused": "waits for a person",
    "unfit": "can't be used over SSH",
    "reached": "reached again",
}


def listing(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return chains as a table, newest first."""
    shown: List[Dict[str, Any]] = [
        {
            **row,
            "due": clock(row["due"], True),
            "executions": ", ".join(f"{n} {word}" for word, n in row["counts"].items()),
        }
        for row in rows
    ]
    columns = ("id", "label", "state", "due", "actions", "minions", "executions", "user")
    return table(columns, shown)


def named(line: Any, ref: str) -> str:
    """Return how a chain is named for people: two of one label differ by their number.

    Args:
        line: what the master answered; an older one says less.
        ref: what the user called it.
    """
    if not isinstance(line, dict) or "id" not in line or "label" not in line:
        return printable(ref)
    return f"chain {line['id']} {printable(str(line['label']))}"


def chain_text(view: Mapping[str, Any], colour: bool, full: bool = False) -> str:
    """Return everything about one chain; *full*: with all that its commands wrote."""
    return "\n".join(_chain(view, colour, full))


def _chain(view: Mapping[str, Any], colour: bool, full: bool) -> Iterator[str]:
    state = paint(view["state"], _CHAIN_HUES.get(view["state"], "yellow"), colour)
    reason = f" ({printable(view['reason'])})" if view["reason"] else ""
    yield f"Chain {view['id']} {printable(view['label'])}: {state}{reason}"
    facts = [f"by {view['user']}", f"due {clock(view['due'], True)}"]
    if view["ended"]:
        facts.append(f"ended {clock(view['ended'], True)}")
    if view["epoch"] > 1:
        facts.append(f"run {view['epoch']}")
    if view["jids"]:
        facts.append(f"job {view['jids'][0]}")
    yield "  " + ", ".join(facts)
    for minion in view["minions"]:
        yield ""
        head = f"{minion['minion']}: {minion['status']}, {minion['note']}"
        yield paint(printable(head), _HUES.get(minion["status"], ""), colour)
        for action in minion["actions"]:
            yield from _action(action, colour, full)


def _action(action: Mapping[str, Any], colour: bool, full: bool) -> Iterator[str]:
    status = paint(f"{action['status']:9}", _HUES.get(action["status"], ""), colour)
    times = f"{clock(action['started'])} .. {clock(action['ended'])}"
    tail = printable(action["summary"])
    yield f"  {action['sort_order']:2} {status} {times:24} {printable(action['title'])}" + (
        f"  [{tail}]" if tail else ""
    )
    # What went well needs no words; what did not, or waits, says why.
    said = action["comment"] if action["status"] == "Failed" else ""
    for line in printable(spoken(said or action["reason"])).splitlines()[: None if full else 12]:
        if action["status"] != "Completed":
            yield f"       {line}"
    # The comment of a failed action ends with the last lines already.
    if full or action["status"] != "Failed":
        yield from _written(action.get("changes"), full)
    if action.get("waits"):
        until = f", until {clock(action['until'], True)}" if action["until"] else ""
        yield f"       {printable(action['waits'])}{until}"


def _written(changes: Any, full: bool) -> Iterator[str]:
    """Yield what the command or script of an action wrote: its last lines, or all."""
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    rows = inner.values() if isinstance(inner, Mapping) else ()
    found = [row["changes"] for row in rows if isinstance(row, Mapping) and "changes" in row]
    for written in found:
        for stream in ("stdout", "stderr"):
            text = written.get(stream) if isinstance(written, Mapping) else None
            lines = printable(text).splitlines() if isinstance(text, str) else []
            left = 0 if full else max(0, len(lines) - _LINES_SHOWN)
            if left:
                yield f"       {stream}: {left} more lines, shown by --full"
            yield from (f"       | {line}" for line in lines[left:])


def event_lines(view: Mapping[str, Any], item: Mapping[str, Any], colour: bool) -> Iterator[str]:
    """Yield what one event of a watched chain says: a transition of an action or the chain."""
    data, at = item["data"], clock(datetime.fromisoformat(item["stamp"]).timestamp())
    if "host" in data:
        said = _OVER_SSH.get(data["host"], data["host"])
        detail = f": {printable(data['detail'])}" if data.get("detail") else ""
        yield f"{at}  {data['minion']:16} {said}{detail}"
        return
    if "action" not in data:
        # catena/chain/<id>/<state>; deeper tags are about chunk files, which nobody watches.
        if "state" in data and item["tag"].count("/") == 3:
            reason = f": {printable(data['reason'])}" if data.get("reason") else ""
            hue = _CHAIN_HUES.get(data["state"], "bold")
            title = f"chain {data['chain']} {printable(data['label'])}"
            yield paint(f"{at}  {title}: {data['state']}{reason}", hue, colour)
        return
    titles = {
        action["action_id"]: f"{action['sort_order']} {action['title']}"
        for minion in view.get("minions", ())
        for action in minion["actions"]
    }
    title = printable(titles.get(data["action"], f"action {data['action']}"))
    status = paint(f"{data['status']:9}", _HUES.get(data["status"], ""), colour)
    reason = f"  ({printable(data['reason'])})" if data.get("reason") else ""
    yield f"{at}  {data['minion']:16} {status} {title}{reason}"

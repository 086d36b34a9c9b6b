"""What a live view shows of a chain or a job, decided from its stream; no terminal, no clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from catena.cli.output.fetching import fetching
from catena.cli.output.tags import parts, spoken
from catena.cli.output.text import printable
from catena.client.follow import ENDED, UNREACHED, JobFollower

#: Failures that are kept for the view; the newest are shown.
KEPT_FAILURES = 50
#: Stands before the states that failed in an action that applied some.
_NESTED = "what failed in it:"
#: Longest text of one cell, characters: minions choose their texts.
_CELL_CHARACTERS = 300

#: Statuses of a row, the most interesting first; the number is the order.
FAILED, ACTIVE, WAITING, DONE = "failed", "active", "waiting", "done"
_ORDER = {FAILED: 0, ACTIVE: 1, WAITING: 2, DONE: 3}
_OF_STATUS = {"Failed": FAILED, "Picked Up": ACTIVE, "Queued": WAITING, "Completed": DONE}

#: Reasons of an action that is done but for its proof -> in words.
_PROOFS = {"reboot": "waits for the boot", "agent_upgrade": "waits for the new agent"}


class Line(NamedTuple):
    """One minion."""

    minion: str
    kind: str
    done: int
    total: int
    #: The current step, the reason of a wait, or the error.
    text: str
    #: When that began, epoch seconds; 0: not known.
    since: float


class Board(NamedTuple):
    """Everything that one frame shows."""

    title: str
    #: Kind of row -> how many minions.
    counts: Mapping[str, int]
    done: int
    total: int
    #: The most interesting minions that there is room for.
    lines: Sequence[Line]
    #: How many minions of each kind have no line.
    hidden: Mapping[str, int]
    #: The newest failures: minion, what failed and why.
    failures: Sequence[str]


def cell(text: Any) -> str:
    """Return a minion's text in one line, without control characters."""
    lines = str(text).strip().splitlines() or [""]
    return printable(lines[0])[:_CELL_CHARACTERS]


def laid_out(title: str, lines: List[Line], room: int, failures: Sequence[str]) -> Board:
    """Return the board that shows the first *room* of *lines* by interest."""
    ordered = sorted(lines, key=lambda line: (_ORDER[line.kind], line.since or 9e12, line.minion))
    counts, hidden = dict.fromkeys(_ORDER, 0), dict.fromkeys(_ORDER, 0)
    for place, line in enumerate(ordered):
        counts[line.kind] += 1
        hidden[line.kind] += place >= room
    done, total = sum(line.done for line in lines), sum(line.total for line in lines)
    return Board(title, counts, done, total, ordered[:room], hidden, failures)


class ChainBoard:
    """Follows the items of a chain.watch stream."""

    def __init__(self) -> None:
        self._head = ""
        self._state = ""
        #: When the chain was to begin, epoch seconds.
        self._due = 0.0
        self._actions: Dict[int, Dict[str, Any]] = {}
        self._minions: Dict[str, List[int]] = {}
        self._failures: Dict[int, str] = {}

    @property
    def is_known(self) -> bool:
        """Whether the chain itself has come."""
        return bool(self._head)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes."""
        return self._state in ("done", "failed", "cancelled")

    def feed(self, item: Mapping[str, Any]) -> None:
        """Take one item of the stream, or the answer of chain.show as one."""
        if item["type"] == "chain":
            self._take_view(item)
        else:
            self._take_event(item)

    def _take_view(self, view: Mapping[str, Any]) -> None:
        self._head = f"Chain {view['id']} {cell(view['label'])}"
        self._state = str(view["state"])
        self._due = float(view.get("due") or 0.0)
        for minion in view["minions"]:
            name = str(minion["minion"])
            self._minions[name] = [action["action_id"] for action in minion["actions"]]
            for action in minion["actions"]:
                self._actions[action["action_id"]] = dict(action)
                if action["status"] == "Failed":
                    self._note(name, action)

    def _take_event(self, item: Mapping[str, Any]) -> None:
        data = item["data"]
        action = self._actions.get(data.get("action", 0))
        if action is None:
            if "action" not in data and item["tag"].count("/") == 3:
                self._state = str(data.get("state", self._state))
            return
        action["status"], action["reason"] = data["status"], data.get("reason", "")
        action["waits"] = ""
        at = datetime.fromisoformat(item["stamp"]).timestamp()
        action["ended" if data["status"] in ("Completed", "Failed") else "started"] = at
        if data["status"] == "Failed":
            self._note(str(data["minion"]), action)

    def _note(self, minion: str, action: Mapping[str, Any]) -> None:
        """Keep a failure; what a later answer says of it is better than the event's reason."""
        why = " ".join(spoken(str(action["comment"] or action["reason"])).split())
        # The function that ran the states is not what failed (`states.function_calls`).
        why = why.partition(_NESTED)[2].lstrip() or why
        text = f"{minion}: {cell(action['title'])}: {cell(why)}"
        self._failures.pop(action["action_id"], None)
        self._failures[action["action_id"]] = text
        while len(self._failures) > KEPT_FAILURES:
            del self._failures[next(iter(self._failures))]

    def board(self, room: int, failures: int) -> Board:
        """Return the frame that has space for the given numbers of minions and failures."""
        lines = [self._line(name, ids) for name, ids in self._minions.items()]
        shown = list(self._failures.values())[-failures:] if failures else []
        return laid_out(f"{self._head}: {self._state}", lines, room, shown)

    def _line(self, name: str, ids: Sequence[int]) -> Line:
        actions = [self._actions[one] for one in ids]
        kinds = [_OF_STATUS.get(action["status"], WAITING) for action in actions]
        done = kinds.count(DONE)
        for kind in (FAILED, ACTIVE, WAITING):
            if kind in kinds:
                action = actions[kinds.index(kind)]
                why = action.get("waits") or _PROOFS.get(action["reason"], action["reason"])
                text = cell(action["title"]) + (f": {cell(why)}" if why else "")
                since = float(action["started"] or 0.0)
                if kind == WAITING and not since:
                    since = max([self._due, *(float(one.get("ended") or 0.0) for one in actions)])
                return Line(cell(name), kind, done, len(ids), text, since)
        return Line(cell(name), DONE, done, len(ids), "", 0.0)


class JobBoard:
    """Shows a job from what its follower knows.

    Args:
        follower: fed elsewhere, before `feed` of the same item.
        title: the function and its target.
    """

    def __init__(self, follower: JobFollower, title: str) -> None:
        self._follower = follower
        self._title = cell(title)
        self._since: Dict[str, float] = {}
        #: Minions that fetch a large file, and how much of it they have.
        self._fetching: Dict[str, str] = {}
        self._failures: List[str] = []

    def feed(self, item: Mapping[str, Any], now: float) -> None:
        """Take one item of a job's stream.

        Args:
            item: the item.
            now: when it came, epoch seconds.
        """
        kind = item.get("type")
        if kind == "delivery":
            self._since[item["minion"]] = now
        elif kind == "progress":
            self._fetching[item["minion"]] = fetching(item)
        elif kind == "return" and (not item["ret"]["success"] or item["ret"]["retcode"]):
            text = f"{cell(item['minion'])}: {failure(item['ret']['value'])}"
            self._failures = [*self._failures, text][-KEPT_FAILURES:]

    def board(self, room: int, failures: int) -> Board:
        """Return the frame that has space for the given numbers of minions and failures."""
        follower = self._follower
        failed = follower.failed()
        lines = [self._line(name, failed) for name in follower.states]
        shown = self._failures[-failures:] if failures else []
        jid = f" (job {follower.jid})" if follower.jid else ""
        return laid_out(self._title + jid, lines, room, shown)

    def _line(self, name: str, failed: Mapping[str, int]) -> Line:
        state = self._follower.states[name]
        since, shown = self._since.get(name, 0.0), cell(name)
        if name in failed:
            return Line(shown, FAILED, 1, 1, f"exit code {failed[name]}", since)
        if name in self._follower.returns:
            return Line(shown, DONE, 1, 1, "", since)
        detail = cell(self._follower.details.get(name) or state)
        if state in ENDED:
            return Line(shown, FAILED, 1, 1, f"{state}: {detail}", since)
        kind = WAITING if state in UNREACHED else ACTIVE
        detail = self._fetching.get(name) or detail
        return Line(shown, kind, 0, 1, detail if detail == state else f"{state}: {detail}", since)


def failure(value: Any) -> str:
    """Return in one line what failed first in a return.

    Of a state this is its id, function and comment; of a command its exit code and the last line
    that it wrote.
    """
    for name, function, comment in _failed_states(value):
        return cell(f"{name} ({function}): {' '.join(comment.split())}")
    if isinstance(value, Mapping) and "retcode" in value:
        return _of_command(value)
    if isinstance(value, list) and value:
        return cell(spoken(str(value[0])))
    return cell(spoken(str(value)))


def _of_command(value: Mapping[str, Any]) -> str:
    said = str(value.get("stderr") or value.get("stdout") or "").strip().splitlines()[-1:]
    return ": ".join([cell(f"exit code {value['retcode']}"), *map(cell, said)])


def _failed_states(value: Any) -> Iterator[Tuple[str, str, str]]:
    if not isinstance(value, Mapping):
        return
    for tag, row in value.items():
        if isinstance(row, Mapping) and row.get("result") is False:
            name, function = parts(str(tag))
            yield str(row.get("__id__") or name), function, spoken(str(row.get("comment", "")))

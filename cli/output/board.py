"""Content of a live view of a chain or a job, derived from its stream; no terminal, no clock."""

from __future__ import annotations

from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
    Union,
)

from catena.cli.output.fetching import fetching
from catena.cli.output.tags import NESTED, parts, spoken
from catena.cli.output.text import printable
from catena.client.follow import ENDED, UNREACHED, JobFollower
from catena.core.frozen import replace

if TYPE_CHECKING:
    from catena.client.replies.chains import ActionView, ChainEventItem, ChainOutputItem, ChainView

#: Maximum number of failures stored for the view; the newest are shown.
KEPT_FAILURES = 50
#: Reason of an action that did not run because one before it failed, as in master.chains.decide.
_PREREQUISITE = "Prerequisite failed"
#: Maximum length of a cell in characters, because minions choose its text.
_CELL_CHARACTERS = 300

#: Events of a chain: the start on a minion is held back, and is sent later.
HELD_BACK, HANDED_OVER = "held_back", "handed_over"

#: Statuses of a row, in the order in which rows are shown.
FAILED, ACTIVE, WAITING, DONE = "failed", "active", "waiting", "done"
_ORDER = {FAILED: 0, ACTIVE: 1, WAITING: 2, DONE: 3}
_OF_STATUS = {"Failed": FAILED, "Picked Up": ACTIVE, "Queued": WAITING, "Completed": DONE}

#: Reason why a done action waits for its proof -> text.
_PROOFS = {"reboot": "waits for the boot", "agent_upgrade": "waits for the new agent"}


class BoardLine(NamedTuple):
    """The row of one minion."""

    minion: str
    kind: str
    done: int
    total: int
    #: The current step, the reason of a wait, or the error.
    text: str
    #: When that began, epoch seconds; 0: unknown.
    since: float


class Board(NamedTuple):
    """The content of one frame."""

    title: str
    #: Status -> number of minions.
    counts: Mapping[str, int]
    done: int
    total: int
    #: The rows that fit, in the order of their statuses.
    lines: Sequence[BoardLine]
    #: Status -> number of minions without a row.
    hidden: Mapping[str, int]
    #: The newest failures: minion, failed step and reason. The last line may count their effects.
    failures: Sequence[str]


def cell(text: Any) -> str:
    """Return a minion's text as one line without control characters."""
    lines = str(text).strip().splitlines() or [""]
    return printable(lines[0])[:_CELL_CHARACTERS]


def laid_out(title: str, lines: List[BoardLine], room: int, failures: Sequence[str]) -> Board:
    """Return the board with the first *room* of *lines* in the order of their statuses."""
    ordered = sorted(lines, key=lambda line: (_ORDER[line.kind], line.since or 9e12, line.minion))
    counts, hidden = dict.fromkeys(_ORDER, 0), dict.fromkeys(_ORDER, 0)
    for place, line in enumerate(ordered):
        counts[line.kind] += 1
        hidden[line.kind] += place >= room
    done, total = sum(line.done for line in lines), sum(line.total for line in lines)
    return Board(title, counts, done, total, ordered[:room], hidden, failures)


class ChainBoard:
    """Shows a chain from the items of its stream."""

    def __init__(self) -> None:
        self._head = ""
        self._state = ""
        #: Scheduled start of the chain, epoch seconds.
        self._due = 0.0
        self._actions: Dict[int, ActionView] = {}
        self._minions: Dict[str, List[int]] = {}
        #: Action -> line of a failure that no other one caused, oldest first.
        self._failures: Dict[int, str] = {}
        #: Minion -> last line of output of the action that runs there.
        self._printed: Dict[str, str] = {}

    @property
    def is_known(self) -> bool:
        """Return whether the first item with the chain has arrived."""
        return bool(self._head)

    @property
    def has_ended(self) -> bool:
        """Return whether the chain has ended."""
        return self._state in ("done", "failed", "cancelled")

    def feed(self, item: Union[ChainView, ChainEventItem, ChainOutputItem]) -> None:
        """Process one item of the stream, or the reply of chain.show."""
        # Imported here: the board of a job, which is in this module too, does without.
        from catena.client.replies.chains import ChainEventItem, ChainOutputItem

        if isinstance(item, ChainEventItem):
            self._take_event(item)
        elif isinstance(item, ChainOutputItem):
            self._take_output(item)
        else:
            self._take_view(item)

    def _take_view(self, view: ChainView) -> None:
        self._head = f"Chain {view.id} {cell(view.label)}"
        self._state = view.state + (", paused" if view.paused else "")
        self._due = view.due
        for minion in view.minions:
            self._minions[minion.minion] = [action.action_id for action in minion.actions]
            for action in minion.actions:
                self._actions[action.action_id] = action
                if action.status == "Failed":
                    self._note(minion.minion, action)

    def _take_output(self, item: ChainOutputItem) -> None:
        """Store the last line that a minion's running command has printed."""
        lines = [line for line in item.text.splitlines() if line.strip()]
        if lines:
            self._printed[item.minion] = lines[-1]

    def _take_event(self, item: ChainEventItem) -> None:
        data = item.data
        action = self._actions.get(data.get("action", 0))
        if action is None:
            if data.get("event") in (HELD_BACK, HANDED_OVER):
                self._take_wait(data)
            elif "action" not in data and item.tag.count("/") == 3:
                self._state = str(data.get("state", self._state))
            return
        self._printed.pop(str(data.get("minion", "")), None)
        status = data["status"]
        at = datetime.fromisoformat(item.stamp).timestamp()
        has_ended = status in ("Completed", "Failed")
        action = self._actions[action.action_id] = replace(
            action,
            status=status,
            reason=data.get("reason", ""),
            comment=str(data.get("comment", "")),
            waits="",
            started=action.started if has_ended else at,
            ended=at if has_ended else action.ended,
        )
        if status == "Failed":
            self._note(str(data["minion"]), action)

    def _take_wait(self, data: Mapping[str, Any]) -> None:
        """Show what the start on a minion waits for, in the line of its first open action."""
        ids = self._minions.get(str(data.get("minion", "")), ())
        first = next((one for one in ids if self._actions[one].status == "Queued"), None)
        if first is not None:
            waits = data["reason"].partition(": ")[2] if data["event"] == HELD_BACK else ""
            self._actions[first] = replace(self._actions[first], waits=waits)

    def _note(self, minion: str, action: ActionView) -> None:
        """Store a failure; a later reply describes it better than the event's reason."""
        self._failures.pop(action.action_id, None)
        if action.reason == _PREREQUISITE:
            return
        self._failures[action.action_id] = f"{minion}: {_with_reason(action, _cause(action))}"
        while len(self._failures) > KEPT_FAILURES:
            del self._failures[next(iter(self._failures))]

    def board(self, room: int, failures: int) -> Board:
        """Return the frame for the given numbers of minions and failures."""
        lines = [self._line(name, ids) for name, ids in self._minions.items()]
        return laid_out(f"{self._head}: {self._state}", lines, room, self._panel(failures))

    def _panel(self, room: int) -> List[str]:
        """Return *room* lines at most: the newest causes, then the number of their effects."""
        left_out = sum(
            action.status == "Failed" and action.reason == _PREREQUISITE
            for action in self._actions.values()
        )
        causes = list(self._failures.values())
        folded = [f"and {left_out} not run, because an action before failed"] if left_out else []
        if causes:
            folded = folded[: room - 1]
        return [*causes[max(0, len(causes) - room + len(folded)) :], *folded][:room]

    def _line(self, name: str, ids: Sequence[int]) -> BoardLine:
        actions = [self._actions[one] for one in ids]
        kinds = [_OF_STATUS.get(action.status, WAITING) for action in actions]
        done = kinds.count(DONE)
        for kind in (FAILED, ACTIVE, WAITING):
            if kind in kinds:
                action = actions[kinds.index(kind)]
                why = action.waits or _PROOFS.get(action.reason, action.reason)
                if kind == ACTIVE:
                    why = why or self._printed.get(name, "")
                if kind == FAILED:
                    why = why or _cause(action)
                text = _with_reason(action, why)
                since = action.started
                if kind == WAITING and not since:
                    since = max([self._due, *(one.ended for one in actions)])
                return BoardLine(cell(name), kind, done, len(ids), text, since)
        return BoardLine(cell(name), DONE, done, len(ids), "", 0.0)


def _cause(action: ActionView) -> str:
    """Return why an action failed, on one line."""
    why = " ".join(spoken(action.comment or action.reason).split())
    # The function that ran the states did not fail itself (`states.function_calls`).
    return why.partition(NESTED)[2].lstrip() or why


def _with_reason(action: ActionView, why: str) -> str:
    return cell(action.title) + (f": {cell(why)}" if why else "")


class JobBoard:
    """Shows a job from the data of its follower.

    Args:
        follower: fed elsewhere, before `feed` of the same item.
        title: the function and its target.
    """

    def __init__(self, follower: JobFollower, title: str) -> None:
        self._follower = follower
        self._title = cell(title)
        self._since: Dict[str, float] = {}
        #: Minion -> progress of the large file that it fetches.
        self._fetching: Dict[str, str] = {}
        self._failures: List[str] = []

    def feed(self, item: Mapping[str, Any], now: float) -> None:
        """Process one item of a job's stream.

        Args:
            item: the item.
            now: time of its arrival, epoch seconds.
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
        """Return the frame for the given numbers of minions and failures."""
        follower = self._follower
        failed = follower.failed()
        lines = [self._line(name, failed) for name in follower.states]
        shown = self._failures[-failures:] if failures else []
        jid = f" (job {follower.jid})" if follower.jid else ""
        return laid_out(self._title + jid, lines, room, shown)

    def _line(self, name: str, failed: Mapping[str, int]) -> BoardLine:
        state = self._follower.states[name]
        since, shown = self._since.get(name, 0.0), cell(name)
        if name in failed:
            return BoardLine(shown, FAILED, 1, 1, f"exit code {failed[name]}", since)
        if name in self._follower.returns:
            return BoardLine(shown, DONE, 1, 1, "", since)
        detail = cell(self._follower.details.get(name) or state)
        if state in ENDED:
            return BoardLine(shown, FAILED, 1, 1, f"{state}: {detail}", since)
        kind = WAITING if state in UNREACHED else ACTIVE
        detail = self._fetching.get(name) or detail
        return BoardLine(
            shown, kind, 0, 1, detail if detail == state else f"{state}: {detail}", since
        )


def failure(value: Any) -> str:
    """Return the first failure in a return, as one line.

    For states: id, function and comment; for a command: exit code and its last line of output.
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

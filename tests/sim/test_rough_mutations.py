"""The checker of rough runs detects errors: each invariant finds one that is made on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from catena.client.requests.chains import ChainSchedule
from catena.master.chains import decide, fence_rules, run_job_rows
from catena.master.chains.releases import Releases
from catena.master.executions import due
from catena.master.executions.due import Due, DueVerdict
from catena.master.gate.minion_gate import MinionGate
from catena.master.jobs import own_job_rows
from catena.master.store import used_numbers
from catena.minion.jobs import seen
from catena.runtime import resume_file
from tests.sim import world
from tests.sim.breaking import SEARCH_SECONDS, Mutation, assert_detected
from tests.sim.clockwork import BEGIN
from tests.sim.faults import DAY
from tests.sim.hostile import NAME as EVIL
from tests.sim.world import Order, Wish, World

#: Rough worlds until one must have shown it.
SEEDS = 60


def cleans_without_pause(stack: ExitStack, made: World | None) -> None:
    """A clean-up that fails is repeated at once, for ever."""
    stack.enter_context(mock.patch.object(fence_rules, "pause", lambda tries: 0.0))


def ignores_refusals(stack: ExitStack, made: World | None) -> None:
    """A start is sent although its minion refuses to forget an ended chain."""
    stack.enter_context(mock.patch.object(fence_rules, "obstacle", lambda *_: None))


def forgets_what_waits(stack: ExitStack, made: World | None) -> None:
    """A start that waited for a clean-up is not sent after it."""

    async def nothing(*_: Any) -> None:
        """Hand nothing over."""

    stack.enter_context(mock.patch.object(Releases, "after_cleans", nothing))
    stack.enter_context(mock.patch.object(Releases, "lapsed", nothing))


def leaves_folders(stack: ExitStack, made: World | None) -> None:
    """A clean-up does not remove a folder in the place of the resume file."""

    def remove(path: Any) -> None:
        Path(path).unlink(missing_ok=True)

    stack.enter_context(mock.patch.object(resume_file, "remove_entry", remove))


def stops_other_runs(stack: ExitStack, made: World | None) -> None:
    """The end of one run stops every job that starts or resumes a run on its minion."""

    def all_of_them(run: Any, jobs: Any) -> list[str]:
        return [job.jid for job in jobs]

    stack.enter_context(mock.patch.object(run_job_rows, "to_stop", all_of_them))


def holds_in_silence(stack: ExitStack, made: World | None) -> None:
    """A chain that is held does not say why."""
    held = DueVerdict(Due.hold)
    stack.enter_context(mock.patch.object(due, "_clock_was_set", lambda step: held))


def waits_in_silence(stack: ExitStack, made: World | None) -> None:
    """A chain whose clock was set back stays scheduled."""
    wait = DueVerdict(Due.wait)
    stack.enter_context(mock.patch.object(due, "_judge_early", lambda *_: wait))


def believes_anybody(stack: ExitStack, made: World | None) -> None:
    """What a hostile minion says counts as the word of an honest one."""
    real: Any = MinionGate._returned

    def returned(self: MinionGate, peer: Any, minion: str, envelope: Any) -> Any:
        return real(self, peer, "m1" if minion == EVIL else minion, envelope)

    stack.enter_context(mock.patch.object(MinionGate, "_returned", returned))


def counts_foreign_uptime(stack: ExitStack, made: World | None) -> None:
    """A wait that began on another host counts the uptime of this one."""

    def uptime(then: Any, now: Any) -> float:
        return float(now.mono - (then.mono if then.boot == now.boot else 0.0))

    stack.enter_context(mock.patch.object(decide, "passed", uptime))
    stack.enter_context(mock.patch("catena.master.chains.rows.rebase", lambda *_: None))


def lets_jids_be_taken(stack: ExitStack, made: World | None) -> None:
    """A return is refused whose jid another minion took first."""
    real: Any = own_job_rows.origin

    def origin(conn: Any, jid: str) -> Any:
        found = real(conn, jid)
        return own_job_rows.JidOrigin.master if found is own_job_rows.JidOrigin.minion else found

    stack.enter_context(mock.patch.object(own_job_rows, "origin", origin))


def confirms_what_has_ended(stack: ExitStack, made: World | None) -> None:
    """An order whose job has ended here before is confirmed, and nothing follows."""
    stack.enter_context(mock.patch.dict(seen.REFUSALS, {"done": ""}))
    stack.enter_context(mock.patch("catena.master.store.restored.JID_GAP", timedelta()))
    alone = mock.patch.object(used_numbers.UsedNumbers, "merged", lambda self, _: self)
    stack.enter_context(alone)


#: What is broken -> a seed that shows it.
MUTATIONS: Mapping[Mutation, int] = {
    cleans_without_pause: 10000013,
    ignores_refusals: 10000013,
    forgets_what_waits: 10000013,
    leaves_folders: 40000045,
    stops_other_runs: 10000001,
    believes_anybody: 10000005,
    counts_foreign_uptime: 10000067,
    lets_jids_be_taken: 40000087,
    confirms_what_has_ended: 10000397,
}


def run_with_clock_set_back(below: Path, stack: ExitStack) -> world.Outcome:
    """Run a world whose one chain is due when the master's clock was set back by a day."""
    due = BEGIN.timestamp() + 10.0
    late = mock.patch.object(world, "ChainSchedule", lambda label: ChainSchedule(label, at=due))
    stack.enter_context(late)

    def change(made: World) -> None:
        made.orders = [Order("chain1", [Wish("chain1.0", 0, ("m1",), "once")], 1.0)]
        set_back = partial(setattr, made.master.clock, "wrong", -DAY)
        made.stage.later(6.0, set_back)

    return world.run(1, below, calm=True, change=change)


@pytest.mark.parametrize("mutation", [None, holds_in_silence, waits_in_silence])
def test_checker_detects_a_chain_held_without_a_reason_after_its_clock_was_set_back(
    mutation: Callable[[ExitStack, None], None] | None, below: Path
) -> None:
    with ExitStack() as stack:
        if mutation is not None:
            mutation(stack, None)
        found = run_with_clock_set_back(below, stack).violations
    assert bool(found) == (mutation is not None), found


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda found: found.__name__)
def test_rough_checker_detects_each_deliberate_error(mutation: Mutation, below: Path) -> None:
    known = MUTATIONS[mutation]
    # Twice: the first world of a process can differ from the same one later.
    seeds = (known, *range(world.ROUGH + 1, world.ROUGH + 2 * SEEDS, 2))
    assert_detected(mutation, below, known, seeds)

"""Makes docs/reference/life-cycles.md from the tables that the code obeys."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from catena.core.fsm import Actor, Kind
from catena.core.fsm_export import mermaid
from catena.master.engines import ENGINES
from catena.master.executions.approval_rules import APPROVAL
from catena.master.executions.lifecycle import EXECUTION, RUN, ReferenceCycle
from catena.master.jobs.delivery import MACHINE as DELIVERY
from catena.master.push.lifecycle import HOST
from catena.minion.jobs.lifecycle import MACHINE as JOB
from catena.runtime import chain_record

_KINDS = {
    Kind.working: "A program of catena processes it and moves it to the next state.",
    Kind.wait: "It waits for an external event: a message, a boot, a time.",
    Kind.hold: "It is stopped until a person lets it continue.",
    Kind.failure: "An error stopped it. It can be retried.",
    Kind.stable: "It is idle until a new request.",
    Kind.final: "It has ended. No transition leaves this state.",
}
_ACTORS = {
    Actor.api: "a person or program that sends a request",
    Actor.system: "the master itself, also when it draws a conclusion from reports",
    Actor.agent: "the minion or host to which the object belongs",
}
_HEAD = """\
# Life cycles

{made_by}

Every object that catena tracks has a life cycle: a table of states and transitions, which the code
enforces. Each transition names the actor that may cause it; other actors are refused. A transition
that is not in the table can't happen.

| kind of state | meaning |
|---|---|
{kinds}

| actor | who |
|---|---|
{actors}

"""


#: Life cycles that all engines share.
_SHARED = (
    ReferenceCycle(
        "Executions",
        "An execution is one action on one minion. Users see four statuses, which combine the\n"
        "states: *Queued* is `PENDING_APPROVE`, `PENDING_SCHEDULE` and `NEW`; *Picked Up* is\n"
        "`RUNNING`; *Completed* is `DONE`; *Failed* is `FAILED`, `CANCELLED` and `LOST`.",
        EXECUTION,
    ),
    ReferenceCycle(
        "Runs",
        "A run is one attempt at a piece of work of any engine, for chains one epoch of a chain.\n"
        "Besides the engine's own state it has a common status, which changes only like this.",
        RUN,
    ),
    ReferenceCycle(
        "Approvals",
        "An approval says who has to agree to a run before it may start.",
        APPROVAL,
    ),
)
#: Life cycles of jobs, of hosts, and of what minions keep.
_OTHERS = (
    ReferenceCycle(
        "Deliveries",
        "A delivery is one job on one minion, whether the job belongs to a chain or not.",
        DELIVERY,
    ),
    ReferenceCycle(
        "Jobs on a minion",
        "The agent keeps this state of each open job in memory; `catena run MINION\n"
        "saltutil.running` shows it. At its next start the agent derives it from the job's\n"
        "folder and its log.",
        JOB,
    ),
    ReferenceCycle(
        "Hosts over SSH",
        "The master keeps this state of each host that it reaches only by SSH.\n"
        "[Reach hosts by SSH](../howto/reach-hosts-by-ssh.md) says how hosts are visited.",
        HOST,
    ),
    ReferenceCycle(
        "Chains on a minion",
        "The minion reads this state from the chain's journal,\n"
        "`<cache_dir>/chains/<CHAIN>/journal`.",
        chain_record.CHAIN,
    ),
    ReferenceCycle(
        "Actions on a minion",
        "The minion reads this state from the same journal.",
        chain_record.ACTION,
    ),
)
#: Sections of the page in their order; each engine's come from its attribute `life_cycles`.
CYCLES = (*_SHARED, *(cycle for engine in ENGINES for cycle in engine.life_cycles), *_OTHERS)


def page(made_by: str) -> str:
    """Return life-cycles.md; *made_by* is the comment that says how the page is made."""
    kinds = "\n".join(f"| {kind.value} | {text} |" for kind, text in _KINDS.items())
    actors = "\n".join(f"| {actor.value} | {text} |" for actor, text in _ACTORS.items())
    head = _HEAD.format(made_by=made_by, kinds=kinds, actors=actors)
    sections = ("\n".join(_section(cycle)) for cycle in CYCLES)
    return head + "\n\n".join(sections) + "\n"


def _section(cycle: ReferenceCycle) -> Iterator[str]:
    machine = cycle.machine
    yield from (f"## {cycle.title}", "", cycle.text, "", f"```mermaid\n{mermaid(machine)}```", "")
    yield from ("| state | kind | default target |", "|---|---|---|")
    for state, kind in machine.states.items():
        target = machine.default_targets.get(state)
        yield f"| {_name(state)} | {kind.value} | {_name(target) if target else ''} |"
    yield from ("", "| from | event | to | by | because |", "|---|---|---|---|---|")
    for row in machine.rows.values():
        actors = ", ".join(actor.value for actor in row.actors)
        moved = f"| {_name(row.source)} | {_name(row.event)} | {_name(row.target)} "
        yield moved + f"| {actors} | {row.why.replace('|', chr(92) + '|')} |"


def _name(member: Enum) -> str:
    return f"`{member.value}`"

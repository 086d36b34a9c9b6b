from __future__ import annotations

import json
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import InvalidStateError
from catena.core.fsm import Actor, ActorError, Kind, Machine, Row, TableError
from catena.core.fsm_export import as_json, dot, mermaid

#: Ironic's machine for provisioning a node: the richest table that this engine must hold.
PROVISIONING = json.loads(
    (Path(__file__).parents[2] / "cases/life_cycles/ironic_provisioning.json").read_text()
)


class S(StrEnum):
    new = "new"
    run = "run"
    done = "done"


class E(StrEnum):
    start = "start"
    end = "end"
    fail = "fail"


class Way(StrEnum):
    idle = "idle"
    work = "work"
    held = "held"
    broken = "broken"


STATES = {S.new: Kind.stable, S.run: Kind.working, S.done: Kind.final}
START = Row(S.new, E.start, S.run, Actor.api, "it was claimed")
END = Row(S.run, E.end, S.done, Actor.agent, "it returned")
FAIL = Row(S.run, E.fail, S.new, (Actor.agent, Actor.system), "it failed, or nobody answered")


def machine(*rows: Row[S, E], states: Any = None, **options: Any) -> Machine[S, E]:
    options.setdefault("failures", [E.fail])
    return Machine("job", states or STATES, [S.new], rows, **options)


WAYS = {Way.idle: Kind.stable, Way.work: Kind.working, Way.held: Kind.hold}


def ways(*rows: tuple[Way, E, Way, Actor], states: Any = None) -> Machine[Way, E]:
    kinds = states or {**WAYS, Way.broken: Kind.failure}
    return Machine("way", kinds, [Way.idle], [Row(*row, "why") for row in rows], failures=[E.fail])


GO = (Way.idle, E.start, Way.work, Actor.api)
BREAK = (Way.work, E.fail, Way.broken, Actor.system)
STOP = (Way.work, E.end, Way.held, Actor.system)
FREE = (Way.held, E.start, Way.work, Actor.api)
RETRY = (Way.broken, E.start, Way.work, Actor.api)


def provisioning() -> Machine[Any, Any]:
    states = [row[0] for row in PROVISIONING["states"]]
    events = dict.fromkeys(row[1] for row in PROVISIONING["transitions"])
    # mypy takes no computed enumerations.
    state: Any = Enum("state", {name.replace(" ", "_"): name for name in states})  # type: ignore[misc]
    event: Any = Enum("event", {name: name for name in events})  # type: ignore[misc]
    return Machine(
        "provisioning",
        {state(name): Kind(kind) for name, kind, _, _ in PROVISIONING["states"]},
        [state(PROVISIONING["initial"])],
        [
            Row(state(source), event(on), state(target), Actor(actor), "as in Ironic")
            for source, on, target, actor, _ in PROVISIONING["transitions"]
        ],
        failures=[event("fail")],
        default_targets={
            state(name): state(target) for name, _, target, _ in PROVISIONING["states"] if target
        },
    )


# -- transitions -------------------------------------------------------------------------------


def test_events_lead_from_state_to_state() -> None:
    life = machine(START, END, FAIL)
    assert life.next(S.new, E.start, Actor.api) is S.run
    assert life.next(S.run, E.end, Actor.agent) is S.done
    assert life.after(S.run, E.end, Actor.agent) is S.done
    assert life.is_final(S.done)
    assert not life.is_final(S.run)
    assert life.of_kind(Kind.stable, Kind.final) == {S.new, S.done}


def test_event_without_a_row_is_refused_with_names() -> None:
    life = machine(START, END, FAIL)
    assert not life.allows(S.done, E.start)
    assert life.after(S.done, E.start, Actor.api) is None
    with pytest.raises(InvalidStateError, match="job: 'start' is not possible in state 'done'"):
        life.next(S.done, E.start, Actor.api)


def test_actor_is_refused_when_the_row_is_for_others() -> None:
    life = machine(START, END, FAIL)
    with pytest.raises(ActorError, match="'fail' in state 'run' is for agent or system only"):
        life.next(S.run, E.fail, Actor.api)
    with pytest.raises(ActorError, match="'end' in state 'run' is for agent only"):
        life.after(S.run, E.end, Actor.system)
    assert not life.allows(S.run, E.end, Actor.system)
    assert life.allows(S.run, E.fail, Actor.system)
    assert life.next(S.run, E.fail, Actor.agent) is S.new
    assert life.replay(S.run, E.fail) is S.new
    with pytest.raises(InvalidStateError):
        life.replay(S.done, E.start)


# -- checks of a table -------------------------------------------------------------------------


def test_two_rows_for_one_event_contradict() -> None:
    with pytest.raises(TableError, match="two rows for new on start"):
        machine(START, START, END)


def test_state_without_a_way_to_it_is_refused() -> None:
    states = {S.new: Kind.stable, S.run: Kind.final, S.done: Kind.final}
    with pytest.raises(TableError, match="nothing leads to done"):
        machine(START, states=states)


def test_circle_of_states_that_nothing_enters_is_refused() -> None:
    inner = (Way.held, E.start, Way.held, Actor.api)
    with pytest.raises(TableError, match="nothing leads to held"):
        ways(GO, BREAK, RETRY, inner)


def test_way_out_of_a_final_state_is_refused() -> None:
    again = Row(S.done, E.start, S.run, Actor.api, "retry")
    with pytest.raises(TableError, match="done is final"):
        machine(START, END, FAIL, again)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.final])
def test_state_without_a_way_out_must_be_final(kind: Kind) -> None:
    with pytest.raises(TableError, match=f"done is {kind.value}"):
        machine(START, END, FAIL, states={**STATES, S.done: kind})


def test_every_member_of_the_enumeration_needs_a_kind() -> None:
    with pytest.raises(TableError, match="broken has no kind"):
        ways(GO, STOP, FREE, states=WAYS)


def test_row_that_nobody_may_cause_is_refused() -> None:
    with pytest.raises(TableError, match="nobody may cause end while run"):
        machine(START, FAIL, Row(S.run, E.end, S.done, (), "never"))


@pytest.mark.parametrize("kind", [Kind.working, Kind.wait])
def test_working_and_waiting_states_need_a_way_to_fail(kind: Kind) -> None:
    with pytest.raises(TableError, match="run can't fail"):
        machine(START, END, states={**STATES, S.run: kind})


def test_failure_that_only_a_request_causes_does_not_count() -> None:
    asked = Row(S.run, E.fail, S.new, Actor.api, "somebody gives it up")
    with pytest.raises(TableError, match="run can't fail"):
        machine(START, END, asked)


def test_state_may_be_exempt_from_failing_with_a_reason() -> None:
    assert machine(START, END, unfailing={S.run: "it only counts"}).unfailing
    with pytest.raises(TableError, match="run is exempt for no reason"):
        machine(START, END, FAIL, unfailing={S.run: "it only counts"})
    with pytest.raises(TableError, match="new is exempt for no reason"):
        machine(START, END, FAIL, unfailing={S.new: "it rests"})


def test_hold_state_needs_a_request_that_lets_it_continue() -> None:
    assert ways(GO, BREAK, RETRY, STOP, FREE)
    by_itself = (*FREE[:3], Actor.system)
    with pytest.raises(TableError, match="no request lets held continue"):
        ways(GO, BREAK, RETRY, STOP, by_itself)


def test_states_that_only_lead_to_each_other_are_refused() -> None:
    rest: Any = (
        Row(S.new, E.start, S.run, Actor.api, ""),
        Row(S.run, E.fail, S.new, Actor.agent, ""),
    )
    end = Row(S.new, E.end, S.done, Actor.agent, "")
    stuck = Row(S.done, E.end, S.done, Actor.agent, "")
    with pytest.raises(TableError, match="no way leads from done to an end"):
        machine(*rest, end, stuck, states={**STATES, S.done: Kind.wait}, unfailing={S.done: "-"})


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ({S.run: S.run}, "the target run is no state of rest"),
        ({S.new: S.done}, "new is at rest and needs no target"),
        ({S.run: Way.idle}, "has no kind"),
    ],
)
def test_default_target_must_be_a_state_of_rest(targets: Any, expected: str) -> None:
    with pytest.raises(TableError, match=expected):
        machine(START, END, FAIL, default_targets=targets)


def test_default_target_must_be_reachable() -> None:
    states = {Way.idle: Kind.stable, Way.work: Kind.working}
    states |= {Way.held: Kind.stable, Way.broken: Kind.failure}
    rows = [
        Row(Way.idle, E.end, Way.held, Actor.api, ""),
        Row(Way.held, E.start, Way.work, Actor.api, ""),
        Row(Way.work, E.fail, Way.broken, Actor.system, ""),
        Row(Way.broken, E.start, Way.work, Actor.api, ""),
    ]
    with pytest.raises(TableError, match="no way leads from work to idle"):
        Machine(
            "way", states, [Way.idle], rows, failures=[E.fail],
            default_targets={Way.work: Way.idle},
        )  # fmt: skip


# -- Ironic's machine --------------------------------------------------------------------------


def test_ironic_machine_passes_every_check_of_a_table() -> None:
    life = provisioning()
    assert (len(life.states), len(life.rows)) == (30, 93)
    fails = {
        name: row.target.value if row else None
        for name, row in (
            (state.value, life.rows.get((state, next(iter(life.failures)))))
            for state in life.states
        )
    }
    assert fails == {name: target for name, _, _, target in PROVISIONING["states"]}


def test_ironic_targets_follow_from_the_state_that_is_entered() -> None:
    life = provisioning()
    states = {state.value: state for state in life.states}
    for _, _, entered, _, after in PROVISIONING["transitions"]:
        found = life.target_in(states[entered])
        assert (found.value if found else None) == after
    cleaning, manageable = states["cleaning"], states["manageable"]
    assert life.target_in(cleaning, manageable) is manageable
    assert life.target_in(manageable, manageable) is None


def test_json_export_gives_ironic_table_back() -> None:
    found = json.loads(as_json(provisioning()))
    assert found["name"] == "provisioning"
    assert [
        [row["from"], row["event"], row["to"], *row["actors"]] for row in found["transitions"]
    ] == [row[:4] for row in PROVISIONING["transitions"]]
    assert [[row["name"], row["kind"], row["default_target"]] for row in found["states"]] == [
        row[:3] for row in PROVISIONING["states"]
    ]
    assert [row["name"] for row in found["states"] if row["initial"]] == ["enroll"]


# -- diagrams ----------------------------------------------------------------------------------


def test_mermaid_diagram_shows_every_row() -> None:
    text = mermaid(machine(START, END, FAIL))
    assert "[*] --> new" in text
    assert "new --> run: start (api)" in text
    assert "run --> new: fail (agent, system)" in text


def test_dot_export_shows_kinds_and_quotes_names() -> None:
    text = dot(provisioning())
    assert text.startswith('digraph "provisioning" {\n')
    assert '    "enroll" [shape=ellipse, penwidth=3];\n' in text
    assert '    "deploy hold" [shape=octagon];\n' in text
    assert '    "deploying" -> "deploy failed" [label="fail (system)"];\n' in text
    assert text.count(" -> ") == 93
    assert text.endswith("}\n")


class Odd(StrEnum):
    quoted = 'a "b" \\'


def test_dot_export_escapes_what_would_end_a_name() -> None:
    one = Row(Odd.quoted, E.start, Odd.quoted, Actor.api, "")
    text = dot(Machine("odd", {Odd.quoted: Kind.stable}, [Odd.quoted], [one]))
    assert '    "a \\"b\\" \\\\" [shape=ellipse, penwidth=3];\n' in text

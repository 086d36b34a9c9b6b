"""The ledger is the only writer of states: no other code of the master sets such a column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.errors import InvalidStateError
from catena.core.fsm import Actor, ActorError
from catena.master.executions.ledger import PlainLifeCycle, PlainMove, besides_state
from catena.master.jobs.delivery import MACHINE, Delivery, DeliveryEvent
from catena.master.store import schema, tables
from catena.master.store.metadata import METADATA
from catena.master.store.tables import DELIVERIES

MASTER = Path(__file__).parents[4] / "master"
LEDGER = "executions/ledger.py"
#: Tables with a column `state` that has no life cycle, each with the reason.
WITHOUT_LIFE_CYCLE = {
    "minion_key": "the verdict on a key: an operator may replace each one by any other",
}
#: Where rows begin, in an initial state of their life cycle: file -> constants of tables.
BEGINNINGS = {
    "chains/dispatch_rows.py": {"CHAIN_MINIONS", "CHUNKS"},
    "chains/draft_rows.py": {"EXECUTIONS"},
    "executions/approval_rows.py": {"APPROVALS"},
    "executions/rows.py": {"EXECUTIONS", "RUNS"},
    "jobs/own_job_rows.py": {"DELIVERIES"},
    "jobs/rows.py": {"DELIVERIES"},
    "push/rows.py": {"SSH_HOSTS"},
}
STATES = {"state", "status"}
#: Helpers that insert rows -> position of their argument that names a column of the table.
INSERTING = {"insert_many": 1, "KeyedInsert": 0}


def with_states() -> dict[str, sa.Table]:
    """Return the tables whose states have a life cycle, by the names of their constants."""
    return {
        name: table
        for module in schema.TABLES
        for name, table in vars(module).items()
        if isinstance(table, sa.Table)
        and "state" in table.c
        and table.name not in WITHOUT_LIFE_CYCLE
    }


Sources = list[tuple[str, ast.Module]]


@pytest.fixture(scope="module")
def sources() -> Sources:
    """Return each file of the master with its tree."""
    found = {str(path.relative_to(MASTER)): path for path in sorted(MASTER.rglob("*.py"))}
    return [
        (name, ast.parse(path.read_text()))
        for name, path in found.items()
        if not name.startswith("store/migrations/")
    ]


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def calls(tree: ast.AST, function: str) -> Iterator[ast.Call]:
    """Yield the calls of `sa.<function>`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"sa.{function}":
            yield node


def values_of(call: ast.Call, above: dict[ast.AST, ast.AST]) -> list[ast.Call]:
    """Return the calls of `values` in the chain of methods that begins with *call*."""
    found, node = [], above[call]
    while isinstance(node, (ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "values":
                found.append(node)
        node = above[node]
    return found


def literal_keys(given: ast.expr, above: dict[ast.AST, ast.AST]) -> set[str] | None:
    """Return the names of the columns that an argument of `values` sets; None: nobody can tell."""
    if isinstance(given, ast.Call) and ast.unparse(given.func) == "besides_state":
        return set()
    if isinstance(given, ast.Name):
        inside: ast.AST = given
        while not isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            inside = above[inside]
        assigned = [
            node.value
            for node in ast.walk(inside)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == given.id
        ]
        return literal_keys(assigned[0], above) if len(assigned) == 1 else None
    if isinstance(given, ast.Dict):
        keys = [key.value for key in given.keys if isinstance(key, ast.Constant)]
        return {str(key) for key in keys} if len(keys) == len(given.keys) else None
    return None


def updates_of_states(name: str, tree: ast.Module) -> Iterator[str]:
    guarded, above = with_states(), parents(tree)
    for call in calls(tree, "update"):
        table = ast.unparse(call.args[0])
        where = f"{name}:{call.lineno}"
        if not table.isupper() and not table.startswith("_"):
            yield f"{where} updates a table that is not named"
        if table not in guarded:
            continue
        given = values_of(call, above)
        if not given:
            yield f"{where} sets columns of {table} elsewhere"
        for one in given:
            keys = [literal_keys(argument, above) for argument in one.args]
            named = {keyword.arg for keyword in one.keywords}
            if None in keys or None in named:
                yield f"{where} may set a state of {table}: pass besides_state(…)"
            elif STATES & named.union(*(key or set() for key in keys)):
                yield f"{where} sets a state of {table}"


def test_every_state_has_a_life_cycle_or_a_reason() -> None:
    known = {table.name for table in with_states().values()} | set(WITHOUT_LIFE_CYCLE)
    assert known == {table.name for table in METADATA.tables.values() if "state" in table.c}


def test_nothing_but_the_ledger_updates_states(sources: Sources) -> None:
    found = [
        text for name, tree in sources if name != LEDGER for text in updates_of_states(name, tree)
    ]
    assert found == []


def test_rows_with_states_are_only_inserted_by_known_functions(sources: Sources) -> None:
    guarded = with_states()
    found: dict[str, set[str]] = {}
    for name, tree in sources:
        begun = {ast.unparse(call.args[0]) for call in calls(tree, "insert")}
        for node in ast.walk(tree):
            place = INSERTING.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and place is not None:
                begun.add(ast.unparse(node.args[place]).partition(".")[0])
        if begun & set(guarded):
            found[name] = begun & set(guarded)
    assert found == BEGINNINGS


def test_no_sql_text_writes_a_table_with_states(sources: Sources) -> None:
    names = "|".join(table.name for table in with_states().values())
    writes = re.compile(rf"\b(update|into)\s+[\"`]?({names})\b[\"`]?\s*(set|\()", re.IGNORECASE)
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and writes.search(node.value)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("sa.update(RUNS).where(x).values(state='done')", "sets a state"),
        ("sa.update(RUNS).values({'status': 'DONE'})", "sets a state"),
        ("def f():\n    v = {'state': 1}\n    sa.update(DELIVERIES).values(v)", "sets a state"),
        ("def f(**v):\n    sa.update(CHUNKS).values(v)", "may set a state"),
        ("sa.update(CHUNKS).values(**v)", "may set a state"),
        ("u = sa.update(CHUNKS).where(x)", "elsewhere"),
        ("sa.update(table).values(due=1)", "not named"),
        ("sa.update(RUNS).values(due=1)", ""),
        ("sa.update(RUNS).values(besides_state(v))", ""),
        ("sa.update(MINIONS).values(v)", ""),
    ],
)
def test_writers_of_states_are_found(code: str, found: str) -> None:
    told = list(updates_of_states("x.py", ast.parse(code)))
    assert ([found in text for text in told] == [True]) if found else told == []


def test_state_columns_are_only_written_by_transitions() -> None:
    assert besides_state({"due": 1}) == {"due": 1}
    for name in STATES:
        with pytest.raises(ValueError, match="only a move"):
            besides_state({name: "done"})


def test_transition_only_updates_rows_that_are_still_in_the_expected_state() -> None:
    engine = sa.create_engine("sqlite://")
    METADATA.create_all(engine, tables=[tables.JOBS, DELIVERIES])
    cycle = PlainLifeCycle(DELIVERIES, MACHINE, ("jid", "minion"), ("detail", "changed"))
    with engine.begin() as conn:
        rows = [
            {"jid": "1", "minion": name, "state": state, "changed": 0.0}
            for name, state in (("a", "queued"), ("b", "sent"))
        ]
        conn.execute(sa.insert(DELIVERIES), rows)
        key, gone = ("1", "a"), ("gone", 5.0)
        send: PlainMove[Delivery, DeliveryEvent]
        send = (key, Delivery.queued, DeliveryEvent.send, gone)
        assert cycle.move(conn, send, Actor.system) is Delivery.sent
        assert cycle.move(conn, send, Actor.system) is None
        statement = cycle.some(DELIVERIES.c.jid == "1", "changed")
        seen = (Delivery.sent, DeliveryEvent.requeue)
        assert cycle.move_some(conn, statement, {"v_changed": 7.0}, seen, Actor.system) == 2
        found = conn.execute(sa.select(DELIVERIES).order_by(DELIVERIES.c.minion)).all()
        assert [(row.state, row.detail, row.changed) for row in found] == [
            ("queued", "gone", 7.0),
            ("queued", "", 7.0),
        ]
        with pytest.raises(InvalidStateError):
            cycle.move(conn, (key, Delivery.done, DeliveryEvent.send, gone), Actor.system)
        with pytest.raises(ActorError):
            cycle.move(conn, send, Actor.agent)
        with pytest.raises(ValueError, match="only a move"):
            cycle.some(DELIVERIES.c.jid == "1", "state")

"""Approvals: who may agree to exactly what, until when, and what a refusal ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catena.core.errors import InvalidStateError, NotAllowedError, NotFoundError
from catena.core.fsm import Actor
from catena.master.executions import approval_rows, approvals, rows
from catena.master.executions.approval_rules import (
    ApprovalState,
    ContentChangedError,
    Needed,
    is_over,
)
from catena.master.executions.ledger import Ledger
from catena.master.executions.model import EventItem, Run
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import HISTORY, RUNS
from catena.master.store.metadata import METADATA

HASH, OTHER = "a" * 64, "b" * 64
NOW = ClockReading(1_000_000.0, 500.0, "boot")
HOUR = 3600.0
ASKED, GRANTED = ApprovalState.asked, ApprovalState.granted


class Engine:
    """Notes which runs it has to end."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, str]] = []

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        self.ended.append((run.id, reason))
        return [("toy/ended", {"run": run.id})]


@pytest.fixture
def conn() -> Iterator[sa.Connection]:
    with fresh() as made:
        yield made


def fresh() -> sa.Connection:
    engine = sa.create_engine("sqlite://")
    METADATA.create_all(engine)
    return engine.connect()


def by(conn: sa.Connection, who: str, seconds: float = 0.0, **more: Any) -> Ledger:
    now = ClockReading(NOW.wall + seconds, NOW.mono + seconds, NOW.boot)
    return Ledger(conn, more.get("now", now), Actor.api if who else Actor.system, who)


def asked(conn: sa.Connection, ref: str = "1", **more: Any) -> tuple[int, int]:
    """Request the approval of a new run by anna; return run and approval."""
    values = {
        "engine": "toys", "ref": ref, "label": "toy", "owner": "anna", "state": "asked",
        "status": "PENDING_APPROVE", "created": NOW.wall, "anchor_wall": NOW.wall,
        "anchor_mono": NOW.mono, "anchor_boot": NOW.boot,
    }  # fmt: skip
    run = rows.insert_run(conn, values)
    return run, approvals.ask(by(conn, "anna"), run, HASH, **more)


def state(conn: sa.Connection, approval: int) -> str:
    found = approval_rows.find(conn, approval)
    assert found is not None
    return found.state


def history(conn: sa.Connection) -> list[tuple[str, str, str]]:
    query = sa.select(HISTORY.c.event, HISTORY.c.target, HISTORY.c.who).order_by(HISTORY.c.id)
    return [tuple(row) for row in conn.execute(query)]


def test_approval_is_granted_for_the_content_that_the_approver_saw(conn: sa.Connection) -> None:
    run, number = asked(conn)
    assert approvals.grant(by(conn, "bob"), number, HASH) is GRANTED
    assert state(conn, number) == "granted"
    assert approvals.approved_by(conn, number) == "bob"
    assert history(conn) == [("grant", "granted", "bob")]
    found = rows.run(conn, run)
    assert found is not None and found.approval == number


@pytest.mark.parametrize("seen", [OTHER, ""])
def test_grant_for_other_content_is_refused_and_stores_no_vote(
    conn: sa.Connection, seen: str
) -> None:
    _, number = asked(conn)
    with pytest.raises(ContentChangedError, match="it has changed; look at it again"):
        approvals.grant(by(conn, "bob"), number, seen)
    assert state(conn, number) == "asked"
    assert approval_rows.votes(conn, number) == []


def test_approval_of_an_older_version_pins_no_content(conn: sa.Connection) -> None:
    values = {"engine": "toys", "ref": "1", "owner": "anna", "state": "asked"}
    run = rows.insert_run(conn, {**values, "status": "PENDING_APPROVE", "created": 1.0})
    number = approvals.ask(by(conn, "anna"), run, "")
    assert approvals.grant(by(conn, "bob"), number, HASH) is GRANTED


def test_several_operators_must_agree_and_each_counts_once(conn: sa.Connection) -> None:
    _, number = asked(conn, needed=Needed(count=2))
    assert approvals.grant(by(conn, "bob"), number, HASH) is ASKED
    with pytest.raises(InvalidStateError, match="bob has already agreed"):
        approvals.grant(by(conn, "bob", 1), number, HASH)
    assert approvals.grant(by(conn, "cleo", 2), number, HASH) is GRANTED
    assert history(conn) == [("agree", "asked", "bob"), ("grant", "granted", "cleo")]


@pytest.mark.parametrize(
    ("more", "who", "roles", "words"),
    [
        ({"excluded": ("anna", "carl")}, "carl", (), "carl has a part in it"),
        ({"needed": Needed(names=("dora",))}, "bob", (), "only dora can vote"),
        ({"needed": Needed(role="release")}, "bob", ("web",), "with the role release can vote"),
        ({}, "", (), "only a named operator can vote"),
    ],
)
def test_vote_that_does_not_count_is_refused(
    conn: sa.Connection, more: dict[str, Any], who: str, roles: tuple[str, ...], words: str
) -> None:
    _, number = asked(conn, **more)
    engine = Engine()
    with pytest.raises(NotAllowedError, match=words):
        approvals.grant(by(conn, who), number, HASH, roles)
    with pytest.raises(NotAllowedError, match=words):
        approvals.refuse(by(conn, who), number, "no", engine, roles)
    assert (state(conn, number), engine.ended) == ("asked", [])


def test_operator_with_the_role_may_agree(conn: sa.Connection) -> None:
    _, number = asked(conn, needed=Needed(role="release", names=("bob",)))
    assert approvals.grant(by(conn, "bob"), number, HASH, ("web", "release")) is GRANTED


def test_refusal_ends_the_run_with_its_reason(conn: sa.Connection) -> None:
    run, number = asked(conn, needed=Needed(count=2))
    engine = Engine()
    ledger = by(conn, "bob", 1)
    approvals.grant(by(conn, "bob"), number, HASH)
    # A person may think again.
    approvals.refuse(ledger, number, "not tonight", engine)
    assert engine.ended == [(run, "refused by bob: not tonight")]
    assert ledger.events == [("toy/ended", {"run": run})]
    assert state(conn, number) == "refused"
    (vote,) = approval_rows.votes(conn, number)
    assert (vote.operator, vote.word, vote.reason) == ("bob", "refuse", "not tonight")
    for again in (
        lambda: approvals.grant(by(conn, "cleo"), number, HASH),
        lambda: approvals.refuse(by(conn, "cleo"), number, "", engine),
    ):
        with pytest.raises(InvalidStateError, match="is refused: no vote changes it"):
            again()


def test_refusal_of_a_run_that_has_ended_ends_it_once(conn: sa.Connection) -> None:
    run, number = asked(conn)
    conn.execute(sa.update(RUNS).where(RUNS.c.id == run).values(ended=NOW.wall))
    engine = Engine()
    approvals.refuse(by(conn, "bob"), number, "", engine)
    assert engine.ended == []


def test_withdrawn_approval_can_not_be_granted(conn: sa.Connection) -> None:
    _, number = asked(conn)
    approvals.withdraw(by(conn, ""), number)
    approvals.withdraw(by(conn, ""), number)
    assert state(conn, number) == "void"
    with pytest.raises(InvalidStateError, match="is void"):
        approvals.grant(by(conn, "bob"), number, HASH)


def test_unknown_approval_is_an_error(conn: sa.Connection) -> None:
    with pytest.raises(NotFoundError, match="no approval 7"):
        approvals.grant(by(conn, "bob"), 7, HASH)
    with pytest.raises(NotFoundError):
        approvals.require(conn, 7, HASH)


def test_run_starts_with_the_approved_content_only(conn: sa.Connection) -> None:
    _, number = asked(conn)
    with pytest.raises(InvalidStateError, match="is asked, not granted"):
        approvals.require(conn, number, HASH)
    approvals.grant(by(conn, "bob"), number, HASH)
    approvals.require(conn, number, HASH)
    with pytest.raises(ContentChangedError):
        approvals.require(conn, number, OTHER)


# -- expiry ------------------------------------------------------------------------------------


def test_expired_approval_ends_the_run(conn: sa.Connection) -> None:
    run, number = asked(conn, expires=NOW.wall + HOUR)
    engine = Engine()
    assert not approvals.expire(by(conn, "", HOUR - 1), number, engine)
    assert approvals.expire(by(conn, "", HOUR), number, engine)
    assert not approvals.expire(by(conn, "", HOUR), number, engine)
    assert engine.ended == [(run, approvals.EXPIRED)]
    assert state(conn, number) == "expired"


def test_vote_after_the_time_is_refused_before_anybody_has_looked(conn: sa.Connection) -> None:
    _, number = asked(conn, expires=NOW.wall + HOUR)
    with pytest.raises(InvalidStateError, match="has expired"):
        approvals.grant(by(conn, "bob", HOUR), number, HASH)
    assert approvals.grant(by(conn, "bob", HOUR - 1), number, HASH) is GRANTED


def test_only_open_approvals_with_a_limit_expire(conn: sa.Connection) -> None:
    asked(conn, "1")
    _, late = asked(conn, "2", expires=NOW.wall + 2 * HOUR)
    _, soon = asked(conn, "3", expires=NOW.wall + HOUR)
    _, granted = asked(conn, "4", expires=NOW.wall + 1)
    approvals.grant(by(conn, "bob"), granted, HASH)
    assert [each.approval.id for each in approval_rows.expiring(conn)] == [soon, late]
    assert approval_rows.next_expiry(conn) == NOW.wall + HOUR


@pytest.mark.parametrize(
    ("wall", "mono", "boot", "over"),
    [
        (HOUR - 1, HOUR - 1, "boot", False),
        (HOUR, HOUR, "boot", True),
        # The clock was set back: the boot clock tells.
        (-86400.0, HOUR, "boot", True),
        # It was set forward: the approval must be requested again.
        (86400.0, 1.0, "boot", True),
        (1.0, -400.0, "next boot", False),
        (HOUR, -400.0, "next boot", True),
    ],
)
def test_earlier_clock_decides_whether_it_is_too_late(
    wall: float, mono: float, boot: str, over: bool
) -> None:
    now = ClockReading(NOW.wall + wall, NOW.mono + mono, boot)
    assert is_over(NOW.wall + HOUR, NOW, now) is over
    assert not is_over(None, NOW, now)


# -- any order ---------------------------------------------------------------------------------

_STEPS = st.one_of(
    st.tuples(st.just("grant"), st.sampled_from("abcde"), st.sampled_from([HASH, OTHER])),
    st.tuples(st.just("refuse"), st.sampled_from("abcde"), st.just("")),
    st.tuples(st.just("withdraw"), st.just(""), st.just("")),
    st.tuples(st.just("expire"), st.just(""), st.just("")),
    st.tuples(st.just("pass"), st.just(""), st.just("")),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_STEPS, max_size=12), st.integers(1, 3), st.sets(st.sampled_from("abcde")))
def test_approval_is_granted_only_by_enough_eligible_operators_in_time(
    steps: list[tuple[str, str, str]], count: int, excluded: set[str]
) -> None:
    with fresh() as conn:
        expires = NOW.wall + 2.5
        run, number = asked(conn, needed=Needed(count), excluded=excluded, expires=expires)
        engine, agreed, expected, seconds = Engine(), set[str](), "asked", 0.0
        for what, who, seen in steps:
            over = seconds >= 2.5
            votes = expected == "asked" and not over and who not in excluded
            ledger = by(conn, who, seconds)
            if what == "pass":
                seconds += 1.0
            elif what == "withdraw":
                approvals.withdraw(ledger, number)
                expected = "void" if expected == "asked" else expected
            elif what == "expire":
                approvals.expire(ledger, number, engine)
                expected = "expired" if expected == "asked" and over else expected
            elif what == "refuse":
                outcome(lambda ledger=ledger: approvals.refuse(ledger, number, "", engine))
                expected = "refused" if votes else expected
            else:
                outcome(lambda ledger=ledger, seen=seen: approvals.grant(ledger, number, seen))
                agreed |= {who} if votes and seen == HASH else set()
                if votes and len(agreed) >= count:
                    expected = "granted"
            assert state(conn, number) == expected
        assert bool(engine.ended) == (expected in ("refused", "expired"))
        assert {ended for ended, _ in engine.ended} <= {run}


def outcome(what: Any) -> None:
    """Do something that may be refused."""
    try:
        what()
    except (InvalidStateError, NotAllowedError):
        return

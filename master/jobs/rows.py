"""Queries on jobs and deliveries; each runs in the transaction of its caller."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.errors import NotFoundError
from catena.core.finite import finite
from catena.core.frozen import replace
from catena.core.fsm import Actor
from catena.core.job import FunctionCall, JobReturn, JobSpec, Payload
from catena.core.records import encode
from catena.master.executions.ledger import PlainLifeCycle
from catena.master.jobs.delivery import MACHINE, OPEN, Delivery, DeliveryEvent
from catena.master.jobs.model import (
    DeliveryOrder,
    DeliveryRecord,
    DeliveryStatus,
    JobRecord,
    JobRequest,
    OpenDelivery,
)
from catena.master.requests.once import job_key, other_request
from catena.master.store.fast.lookup import Lookup
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import Ready
from catena.master.store.tables import DELIVERIES, JOBS, RETURNS

# Statements of the hot path are built once; building one costs more than running it.
_INSERT_JOB = ManyRows(sa.insert(JOBS), JOBS.c.keys())
_INSERT_DELIVERIES = ManyRows(
    sa.insert(DELIVERIES),
    (
        "jid",
        "minion",
        "state",
        "changed",
        "epoch",
        "payload_kind",
        "payload_number",
        "payload",
    ),
)
_INSERT_RETURNS = ManyRows(
    sa.insert(RETURNS),
    ("jid", "minion", "success", "retcode", "ret", "stored", "late", "event"),
)
_THIS = (DELIVERIES.c.jid == sa.bindparam("b_jid")) & (
    DELIVERIES.c.minion == sa.bindparam("b_minion")
)
_DELIVERY = Lookup(
    sa.select(
        DELIVERIES.c.state,
        DELIVERIES.c.detail,
        DELIVERIES.c.cancel,
        JOBS.c.batch,
        RETURNS.c.stored,
    )
    .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
    .outerjoin(
        RETURNS,
        (RETURNS.c.jid == DELIVERIES.c.jid) & (RETURNS.c.minion == DELIVERIES.c.minion),
    )
    .where(_THIS),
    DeliveryRecord,
)
_REPEATED = Lookup(sa.select(JOBS.c.jid).where(JOBS.c.idempotency == sa.bindparam("b_key")), str)
_SOME = (DELIVERIES.c.jid == sa.bindparam("b_jid")) & DELIVERIES.c.minion.in_(
    sa.bindparam("b_minions", expanding=True)
)
#: The history does not record moves of deliveries, because there are too many.
_LIFE_CYCLE = PlainLifeCycle(DELIVERIES, MACHINE, ("jid", "minion"), ("detail", "changed"))
_MARK = _LIFE_CYCLE.some(_SOME, "changed")
_MARK_RESENT = sa.update(DELIVERIES).where(_SOME).values(changed=sa.bindparam("b_now"))
_PAYLOAD = (
    DELIVERIES.c.epoch,
    DELIVERIES.c.payload_kind,
    DELIVERIES.c.payload_number,
    DELIVERIES.c.payload,
)
_PAYLOADS = sa.select(DELIVERIES.c.minion, *_PAYLOAD).where(_SOME)
#: Selects the columns of `JobRecord`.
JOB_ROWS: sa.Select[Any] = sa.select(*(JOBS.c[name] for name in JobRecord._fields))
_JOB = JOB_ROWS.where(JOBS.c.jid == sa.bindparam("b_jid"))
_STATUSES = (
    sa.select(*(DELIVERIES.c[name] for name in DeliveryStatus._fields))
    .where(DELIVERIES.c.jid == sa.bindparam("b_jid"))
    .order_by(DELIVERIES.c.minion)
)
_OPEN_STATES = [state.value for state in OPEN]
_OPEN_DELIVERIES = (
    JOB_ROWS.add_columns(DELIVERIES.c.state, DELIVERIES.c.cancel, *_PAYLOAD)
    .join(DELIVERIES, DELIVERIES.c.jid == JOBS.c.jid)
    .where(DELIVERIES.c.minion == sa.bindparam("b_minion"))
    .where(DELIVERIES.c.state.in_(_OPEN_STATES))
    .order_by(JOBS.c.jid)
)
_SNAPSHOTS: sa.Select[Any] = (
    sa.select(
        DELIVERIES.c.minion,
        DELIVERIES.c.state,
        DELIVERIES.c.cancel,
        JOBS.c.batch,
        RETURNS.c.stored,
    )
    .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
    .outerjoin(
        RETURNS,
        (RETURNS.c.jid == DELIVERIES.c.jid) & (RETURNS.c.minion == DELIVERIES.c.minion),
    )
    .where(_SOME)
)
_CLOSE = ManyRows(
    sa.update(JOBS)
    .where(JOBS.c.jid == sa.bindparam("b_jid"))
    .values(
        open=JOBS.c.open - sa.bindparam("b_count", type_=sa.Integer),
        ended=sa.case(
            (JOBS.c.open <= sa.bindparam("b_count", type_=sa.Integer), sa.bindparam("b_now")),
            else_=None,
        ),
    ),
    ("b_jid", "b_count", "b_now"),
)

#: States by value; a call of the enumeration takes ten times as long.
_STATES = {state.value: state for state in Delivery}

#: Maximum number of rows per statement; SQLite binds at most 32 766 values.
SLICE = 5000


class DeliverySnapshot(NamedTuple):
    """The state of a delivery as it was read, for the bulk processing of reports."""

    state: Delivery
    #: Whether the delivery is neither being cancelled nor part of a batch.
    is_plain: bool
    #: Whether its return is stored.
    has_return: bool


class Move(NamedTuple):
    """A decided transition of a delivery."""

    jid: str
    minion: str
    #: The state that the decision is based on.
    seen: Delivery
    event: DeliveryEvent
    #: Reason or progress, for people.
    detail: str


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be stored."""

    spec: JobSpec
    request: JobRequest
    #: First state of each minion's delivery.
    deliveries: Mapping[str, Delivery]
    #: Maximum number of concurrent deliveries; 0: unlimited.
    batch: int = 0


def insert(conn: sa.Connection, new: NewJob) -> None:
    """Store a job with one delivery per minion.

    Raises:
        sqlalchemy.exc.IntegrityError: the jid or the idempotency key is taken.
    """
    spec = new.spec
    row = {
        "jid": spec.jid,
        "fun": spec.fun,
        "args": encode(spec.args),
        "kwargs": spec.kwargs,
        "user": spec.user,
        "tgt": spec.tgt,
        "tgt_type": spec.tgt_type,
        "metadata": spec.metadata,
        "issued": spec.issued,
        "not_after": spec.not_after,
        "deadline_seconds": spec.deadline_seconds,
        "batch": new.batch,
        "batch_wait": new.request.batch_wait,
        "batch_failhard": new.request.batch_failhard,
        "idempotency": idempotency(new.request),
        "open": len(new.deliveries),
        "ended": None if new.deliveries else spec.issued,
    }
    _INSERT_JOB.run(conn, [[row[name] for name in JOBS.c.keys()]])
    _INSERT_DELIVERIES.run(conn, [_delivery_row(new, *at) for at in new.deliveries.items()])


def _delivery_row(new: NewJob, minion: str, state: Delivery) -> tuple[Any, ...]:
    payload = new.request.payloads.get(minion)
    part: tuple[Any, ...] = (0, None, None, None)
    if payload is not None:
        part = (payload.epoch, payload.kind, payload.number, Ready.of(payload.body))
    return new.spec.jid, minion, state.value, new.spec.issued, *part


def idempotency(request: JobRequest) -> str | None:
    """Return the stored form of a request's idempotency key, or None."""
    return job_key(request.user, request.idempotency_key)


def jid_of_key(conn: sa.Connection, key: str | None) -> str | None:
    """Return the jid of the job with the stored form of an idempotency key, or None."""
    return _REPEATED.one(conn, {"b_key": key})


def repeated_jid(conn: sa.Connection, request: JobRequest) -> str | None:
    """Return the jid of the job that an earlier request with this key made, or None.

    Raises:
        UsageError: the request must match exactly, but the earlier one had another function,
            target or arguments.
    """
    found = jid_of_key(conn, idempotency(request))
    if found is None:
        return None
    if request.exact:
        stored = job(conn, found)
        if _arguments(stored) != _arguments(request.call):
            raise other_request(request.idempotency_key, f"job {found}, {stored.fun}")
    return found


def _arguments(what: JobRecord | FunctionCall) -> Any:
    """Return the values that distinguish requests; NaN is replaced to be equal to itself."""
    return finite([what.fun, what.tgt, encode(what.args), encode(what.kwargs)])


def with_payload(spec: JobSpec, minion: str, payload: Payload) -> JobSpec:
    """Return the spec for one minion of a job with payloads; its target names only *minion*.

    If each minion got the list of all minions, the traffic would grow with their square.
    """
    return replace(spec, payload=payload, epoch=payload.epoch, tgt=minion, tgt_type="list")


def _payload(epoch: int, kind: str | None, number: int, body: Any) -> Payload | None:
    """Return the payload in the columns of `_PAYLOAD`; None for a job without a payload."""
    return None if kind is None else Payload(kind, number, epoch, body)


def spec_of(job: JobRecord, minion: str, payload: Payload | None) -> JobSpec:
    """Return the spec of a stored job, with the payload of one minion's delivery."""
    spec = JobSpec(
        jid=job.jid,
        user=job.user,
        issued=job.issued,
        not_after=job.not_after,
        deadline_seconds=job.deadline_seconds,
        **FunctionCall.of(job).fields(),
    )
    return with_payload(spec, minion, payload) if payload else spec


def job(conn: sa.Connection, jid: str) -> JobRecord:
    """Return a stored job.

    Raises:
        NotFoundError: there is none.
    """
    row = conn.execute(_JOB, {"b_jid": jid}).one_or_none()
    if row is None:
        raise NotFoundError(f"no job {jid}")
    return JobRecord._make(row)


def delivery(conn: sa.Connection, jid: str, minion: str) -> DeliveryRecord | None:
    """Return one delivery, or None."""
    return _DELIVERY.one(conn, {"b_jid": jid, "b_minion": minion})


def snapshots(
    conn: sa.Connection, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], DeliverySnapshot]:
    """Return snapshots of deliveries by (jid, minion); missing deliveries are left out."""
    minions: defaultdict[str, set[str]] = defaultdict(set)
    for jid, minion in keys:
        minions[jid].add(minion)
    found: dict[tuple[str, str], DeliverySnapshot] = {}
    for jid, names in minions.items():
        rows = conn.execute(_SNAPSHOTS, {"b_jid": jid, "b_minions": padded(names)})
        for minion, state, cancel, limit, stored in rows:
            is_plain = not (cancel or limit)
            found[jid, minion] = DeliverySnapshot(_STATES[state], is_plain, stored is not None)
    return found


def deliveries(conn: sa.Connection, jid: str) -> list[DeliveryStatus]:
    """Return the deliveries of a job by minion id."""
    return [DeliveryStatus._make(row) for row in conn.execute(_STATUSES, {"b_jid": jid})]


def open_deliveries(conn: sa.Connection, minion: str) -> list[OpenDelivery]:
    """Return the open deliveries of a minion with their jobs, oldest first."""
    size = len(JobRecord._fields)
    found = []
    for row in conn.execute(_OPEN_DELIVERIES, {"b_minion": minion}):
        state, cancel, *payload = row[size:]
        record = JobRecord._make(row[:size])
        found.append(OpenDelivery(record, state, cancel, _payload(*payload)))
    return found


def open_jids(conn: sa.Connection, minion: str) -> Sequence[str]:
    """Return the jids of the open deliveries of a minion."""
    rule = (DELIVERIES.c.minion == minion) & DELIVERIES.c.state.in_(_OPEN_STATES)
    return conn.execute(sa.select(DELIVERIES.c.jid).where(rule)).scalars().all()


def set_cancel(conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
    """Record that a delivery is to be cancelled, and why."""
    rule = (DELIVERIES.c.jid == jid) & (DELIVERIES.c.minion == minion)
    conn.execute(sa.update(DELIVERIES).where(rule).values(cancel=reason))


def not_received(conn: sa.Connection, upto: str) -> list[tuple[str, str, str]]:
    """Return (jid, minion, state) of unacknowledged deliveries of jobs up to a jid."""
    states = (Delivery.held, Delivery.queued, Delivery.paused, Delivery.sent)
    query = sa.select(DELIVERIES.c.jid, DELIVERIES.c.minion, DELIVERIES.c.state)
    waiting = DELIVERIES.c.state.in_([state.value for state in states])
    query = query.where(waiting, DELIVERIES.c.jid <= upto)
    return [(row.jid, row.minion, row.state) for row in conn.execute(query)]


def unacknowledged(
    conn: sa.Connection, before: float, now: float, connected: Container[str]
) -> dict[str, list[str]]:
    """Return jid -> minions of *connected* that have not acknowledged an order in time.

    The result has at most SLICE deliveries. Disconnected minions get their orders after their
    Hello and do not count.

    Args:
        conn: the running transaction.
        before: latest time of sending, seconds since the epoch.
        now: the wall clock. Orders with a later time were sent before the clock was set back, so
            their age is unknown; they count as late.
        connected: the minions to which an order can be sent now.
    """
    changed = DELIVERIES.c.changed
    query = (
        sa.select(DELIVERIES.c.jid, DELIVERIES.c.minion)
        .join(JOBS, DELIVERIES.c.jid == JOBS.c.jid)
        .where(JOBS.c.ended.is_(None))
        .where(DELIVERIES.c.state == Delivery.sent.value, (changed < before) | (changed > now))
    )
    found: defaultdict[str, list[str]] = defaultdict(list)
    with conn.execute(query) as rows:
        reachable = ((jid, minion) for jid, minion in rows if minion in connected)
        for jid, minion in islice(reachable, SLICE):
            found[jid].append(minion)
    return found


def open_batches(conn: sa.Connection) -> list[tuple[str, int]]:
    """Return jid and maximum concurrency of the batched jobs that have held deliveries."""
    of_job = DELIVERIES.c.jid == JOBS.c.jid
    held = sa.exists().where(of_job, DELIVERIES.c.state == Delivery.held.value)
    query = sa.select(JOBS.c.jid, JOBS.c.batch).where(JOBS.c.ended.is_(None), JOBS.c.batch > 0)
    return [(row.jid, row.batch) for row in conn.execute(query.where(held))]


def mark_resent(conn: sa.Connection, jid: str, minions: Sequence[str], now: float) -> None:
    """Record that unacknowledged orders are resent, to at most SLICE minions."""
    values = {"b_jid": jid, "b_minions": padded(minions), "b_now": now}
    conn.execute(_MARK_RESENT, values)


def orders(
    conn: sa.Connection, jid: str, minions: Sequence[str], *, stored_as_sent: bool = False
) -> list[DeliveryOrder]:
    """Return the orders of a job for *minions*.

    Minions without a payload share one spec, which is packed once for all of them.
    """
    if not minions:
        return []
    shared = spec_of(job(conn, jid), "", None)
    specs: dict[str, JobSpec] = {}
    for some in slices(minions, SLICE):
        for minion, *columns in conn.execute(_PAYLOADS, {"b_jid": jid, "b_minions": padded(some)}):
            own = _payload(*columns)
            specs[minion] = with_payload(shared, minion, own) if own else shared
    return [DeliveryOrder(name, specs[name], stored_as_sent) for name in minions if name in specs]


def move(
    conn: sa.Connection,
    row: tuple[str, str, str],
    cause: DeliveryEvent,
    actor: Actor,
    detail: str,
    now: float,
) -> Delivery | None:
    """Move a delivery by its life cycle, if it is still in the state that was read.

    Args:
        conn: the running transaction.
        row: jid, minion, and the state that the caller read.
        cause: the event.
        actor: who caused the event.
        detail: reason or progress, for people.
        now: seconds since the epoch.

    Returns:
        The new state; None if the state has changed since it was read, or if the life cycle has
        no such transition, as for a late or repeated message.

    Raises:
        ActorError: *actor* may not cause the transition.
    """
    jid, minion, seen = row
    source = _STATES[seen]
    if not MACHINE.allows(source, cause):
        return None
    target = _LIFE_CYCLE.move(conn, ((jid, minion), source, cause, (detail, now)), actor)
    if target is not None and MACHINE.is_final(target):
        _CLOSE.run(conn, [(jid, 1, now)])
    return target


def move_many(conn: sa.Connection, moves: Sequence[Move], actor: Actor, now: float) -> bool:
    """Store decided moves of different deliveries.

    Returns:
        False if the state of a delivery has changed since it was read; the caller rolls back.
    """
    given = [
        ((jid, minion), seen, event, (detail, now)) for jid, minion, seen, event, detail in moves
    ]
    targets = _LIFE_CYCLE.move_many(conn, given, actor)
    if targets is None:
        return False
    ended = Counter(
        move.jid for move, to in zip(moves, targets, strict=True) if MACHINE.is_final(to)
    )
    _CLOSE.run(conn, [(jid, count, now) for jid, count in ended.items()])
    return True


def mark_sent(conn: sa.Connection, jid: str, minions: Iterable[str], now: float) -> None:
    """Record that a job was sent to *minions*."""
    _mark(conn, jid, minions, now, DeliveryEvent.send, Delivery.queued)


def mark_requeued(conn: sa.Connection, jid: str, minions: Iterable[str], now: float) -> None:
    """Queue a job again that was stored as sent but could not be sent to *minions*."""
    _mark(conn, jid, minions, now, DeliveryEvent.requeue, Delivery.sent)


def _mark(
    conn: sa.Connection,
    jid: str,
    minions: Iterable[str],
    now: float,
    cause: DeliveryEvent,
    seen: Delivery,
) -> None:
    for some in slices(list(minions), SLICE):
        values = {"b_jid": jid, "b_minions": padded(some), "v_changed": now}
        _LIFE_CYCLE.move_some(conn, _MARK, values, (seen, cause), Actor.system)


def due_to_expire(conn: sa.Connection, now: float) -> list[tuple[str, str, str]]:
    """Return (jid, minion, state) of at most SLICE deliveries that were not sent in time."""
    waiting = (Delivery.held.value, Delivery.queued.value)
    query = (
        sa.select(DELIVERIES.c.jid, DELIVERIES.c.minion, DELIVERIES.c.state)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(JOBS.c.ended.is_(None), JOBS.c.not_after < now, DELIVERIES.c.state.in_(waiting))
        .limit(SLICE)
    )
    return [(row.jid, row.minion, row.state) for row in conn.execute(query)]


def prolong(conn: sa.Connection, jid: str, not_after: float) -> None:
    """Extend the delivery time of a job to at least *not_after*."""
    rule = (JOBS.c.jid == jid) & (JOBS.c.not_after < not_after)
    conn.execute(sa.update(JOBS).where(rule).values(not_after=not_after))


class NewReturn(NamedTuple):
    """A return about to be stored."""

    minion: str
    ret: JobReturn
    #: The whole return as MessagePack.
    packed: Ready
    #: Whether the delivery had already ended otherwise.
    late: bool


def store_returns(
    conn: sa.Connection, news: Sequence[NewReturn], seqs: Sequence[int | None], now: float
) -> None:
    """Store returns.

    Args:
        conn: the running transaction.
        news: the returns.
        seqs: for each return the position of its event, if the event's data is stored only with
            the return; None: the event's row has its own data.
        now: seconds since the epoch.

    Raises:
        sqlalchemy.exc.IntegrityError: one of the returns is stored already.
    """
    rows = [
        (
            new.ret.jid,
            new.minion,
            new.ret.success,
            new.ret.retcode,
            new.packed,
            now,
            new.late,
            seq,
        )
        for new, seq in zip(news, seqs, strict=True)
    ]
    _INSERT_RETURNS.run(conn, rows)

"""Runs, executions, history, leases and approvals that all engines share.

The state of a chain moves to its newest run. An earlier attempt becomes a run of its own, which
failed. What only chains need of an execution moves to a table of theirs.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_FINAL = "('DONE', 'FAILED', 'CANCELLED', 'LOST')"
_ENDED = "('done', 'failed', 'cancelled')"
_STATUS = """CASE {state} WHEN 'pending_approval' THEN 'PENDING_APPROVE'
    WHEN 'scheduled' THEN 'PENDING_SCHEDULE' WHEN 'waiting' THEN 'PENDING_SCHEDULE'
    WHEN 'dispatched' THEN 'NEW' WHEN 'running' THEN 'RUNNING' WHEN 'done' THEN 'DONE'
    WHEN 'cancelled' THEN 'CANCELLED' ELSE 'FAILED' END"""
#: Columns of a chain that its run has from now on, and the indexes on them.
_MOVED = (
    "state", "reason", "epoch", "modified", "due", "anchor_wall", "anchor_mono", "anchor_boot",
    "approved_by", "ended",
)  # fmt: skip
_OLD = {
    "execution": (
        "ix_execution_chain_id_minion", "ix_execution_chain_id_state", "ix_execution_state",
    ),
    "chain_run": (
        "ix_chain_run_jid", "ix_chain_run_minion_open", "ix_chain_run_open_jid",
        "ix_chain_run_fence_chain_id", "ix_chain_run_fence_minion",
    ),
    "chain_chunk": ("ix_chain_chunk_state",),
    "chain_history": ("ix_chain_history_chain_id",),
}  # fmt: skip


def upgrade() -> None:
    """Make the tables and carry every row over."""
    _set_aside()
    _make_shared()
    _make_chains()
    _carry_runs()
    _carry_executions()
    _carry_minions()
    _carry_history()
    _finish()


def downgrade() -> None:
    """Refuse: the way back is the copy that was kept before the upgrade."""
    raise NotImplementedError("restore the copy of the database from before the upgrade")


# -- schema ------------------------------------------------------------------------------------


def _set_aside() -> None:
    """Rename the tables that are replaced; names of their indexes and keys become free."""
    for table, indexes in _OLD.items():
        for index in indexes:
            op.drop_index(index, table)
        op.rename_table(table, f"old_{table}")
    op.create_index("ix_old", "old_chain_history", ["chain_id", "epoch", "subject"])
    op.drop_index("ix_chain_action_chain_id", "chain_action")
    op.rename_table("chain_action", "action")
    op.create_index("ix_action_chain_id", "action", ["chain_id"])
    if op.get_bind().dialect.name == "postgresql":
        _rename_on_postgresql()


def _rename_on_postgresql() -> None:
    """Free the names of keys and sequences, which PostgreSQL keeps when a table is renamed."""
    inspector = sa.inspect(op.get_bind())
    for table in _OLD:
        name = inspector.get_pk_constraint(f"old_{table}")["name"]
        op.execute(f'ALTER TABLE old_{table} RENAME CONSTRAINT "{name}" TO pk_old_{table}')
    for table in ("execution", "chain_history"):
        op.execute(f"ALTER SEQUENCE {table}_id_seq RENAME TO old_{table}_id_seq")
    op.execute("ALTER SEQUENCE chain_action_id_seq RENAME TO action_id_seq")
    renamed = (("action", "pk_chain_action", "pk_action"),)
    for table, old, new in renamed:
        names = inspector.get_pk_constraint(table)["name"]
        if names == old:
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}")


def _number_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _serial() -> sa.Column[int]:
    return sa.Column("id", _number_type(), primary_key=True, autoincrement=True)


def _of(
    name: str, table: str, *, key: bool = False, null: bool = False, gone: str = "CASCADE"
) -> sa.Column[int]:
    target = sa.ForeignKey(f"{table}.id", ondelete=gone)
    return sa.Column(name, _number_type(), target, primary_key=key, nullable=null)


def _name(name: str, length: int, *, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, primary_key=key)


def _text(name: str, length: int = 0) -> sa.Column[str]:
    kind = sa.String(length) if length else sa.Text()
    return sa.Column(name, kind, nullable=False, server_default="")


def _count(name: str, start: str = "0") -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default=start)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def _moment(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=True)


def _zero(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, server_default="0")


def _index(name: str, table: str, columns: list[str], rule: str = "") -> None:
    where = sa.text(rule) if rule else None
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def _make_shared() -> None:
    _make_approvals()
    op.create_table(
        "run",
        _serial(),
        _name("engine", 24),
        _name("ref", 64),
        _text("label", 256),
        _name("owner", 64),
        _name("state", 24),
        _name("status", 24),
        _text("reason"),
        _count("epoch", "1"),
        _moment("due"),
        _zero("anchor_wall"),
        _zero("anchor_mono"),
        _text("anchor_boot", 64),
        sa.Column("parent_run", _number_type()),
        _of("approval", "approval", null=True, gone="SET NULL"),
        _time("created"),
        _moment("started"),
        _moment("ended"),
        _count("revision"),
        sa.UniqueConstraint("engine", "ref", "epoch", name="uq_run_engine_ref_epoch"),
        sqlite_autoincrement=True,
    )
    _index("ix_run_approval", "run", ["approval"])
    _index("ix_run_engine_state", "run", ["engine", "state", "due"], "ended IS NULL")
    _make_executions()
    _make_history()


def _make_approvals() -> None:
    op.create_table(
        "approval",
        _serial(),
        _name("subject", 24),
        _name("subject_id", 64),
        _text("content_hash", 64),
        _name("asked_by", 64),
        sa.Column("excluded", sa.LargeBinary()),
        sa.Column("needed", sa.LargeBinary()),
        _moment("expires"),
        _name("state", 24),
        _time("created"),
        _count("revision"),
    )
    _index("ix_approval_subject_subject_id", "approval", ["subject", "subject_id"])
    op.create_table(
        "approval_vote",
        _of("approval", "approval", key=True),
        _name("operator", 64, key=True),
        _name("word", 16),
        _time("at"),
        _text("reason"),
    )


def _make_executions() -> None:
    op.create_table(
        "execution",
        _serial(),
        _of("run", "run"),
        _name("engine", 24),
        _text("kind", 24),
        _name("ref", 64),
        sa.Column("minion", sa.String(253)),
        sa.Column("node", sa.String(64)),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        _name("state", 24),
        _name("status", 24),
        _text("reason"),
        _count("attempts"),
        _time("created"),
        _moment("started"),
        _moment("ended"),
        sa.Column("retcode", sa.Integer()),
        _text("comment"),
        sa.Column("changes", sa.LargeBinary()),
        sa.UniqueConstraint("run", "ref", name="uq_execution_run_ref"),
    )


def _make_history() -> None:
    op.create_table(
        "history",
        _serial(),
        _name("subject", 24),
        sa.Column("subject_id", sa.BigInteger(), nullable=False),
        _of("run", "run", null=True),
        _text("source", 24),
        _name("event", 24),
        _text("target", 24),
        _name("actor", 8),
        _text("who", 253),
        _time("at"),
        _text("reason"),
    )
    op.create_table(
        "pause",
        _of("run", "run", key=True),
        _name("minion", 253, key=True),
        _name("who", 64),
        _time("at"),
    )
    op.create_table(
        "lease",
        _name("subject", 24, key=True),
        _name("id", 253, key=True),
        _name("holder", 128),
        sa.Column("epoch", sa.Integer(), nullable=False),
        _time("until"),
    )


def _make_chains() -> None:
    op.create_table(
        "chain_execution",
        _of("execution", "execution", key=True),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("boundary", sa.String(16), nullable=False, server_default="none"),
        _zero("delay_seconds"),
        _moment("picked_up"),
        _zero("picked_mono"),
        _text("picked_host_boot", 64),
        _text("picked_host", 64),
        _text("boot_id", 64),
    )
    op.create_table(
        "chain_minion",
        _serial(),
        _of("run", "run"),
        _name("minion", 253),
        _name("machine_id", 64),
        _text("jid", 20),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        _text("boot_id", 64),
        _name("state", 16),
        _text("fence_jid", 20),
        _count("fence_tries"),
        _zero("fence_at"),
        _text("fence_why"),
        _text("disowned"),
        sa.Column(
            "over_ssh", sa.Boolean(name="over_ssh"), nullable=False, server_default=sa.false()
        ),
        sa.UniqueConstraint("run", "minion", name="uq_chain_minion_run_minion"),
    )
    op.create_table(
        "chain_chunk",
        _serial(),
        _of("run", "run"),
        _name("minion", 253),
        sa.Column("number", sa.Integer(), nullable=False),
        _name("file", 255),
        _name("sha256", 64),
        _name("boundary", 16),
        _name("state", 16),
        sa.UniqueConstraint("run", "minion", "number", name="uq_chain_chunk_run_minion_number"),
    )


# -- rows --------------------------------------------------------------------------------------


def _carry_runs() -> None:
    """Make a run of each epoch that a chain has had; all but the newest failed."""
    told = "SELECT {what} FROM old_chain_history h WHERE h.chain_id = e.chain_id"
    told += " AND h.epoch = e.epoch AND h.subject = 'chain'"
    last = f"({told.format(what='{what}')} AND h.target = 'failed' ORDER BY h.id DESC LIMIT 1)"
    first = f"({told.format(what='min(h.at)')})"
    sent = f"({told.format(what='min(h.at)')} AND h.event = 'dispatch')"
    op.execute(f"""
        INSERT INTO run (engine, ref, label, owner, state, status, reason, epoch, due,
            anchor_wall, anchor_mono, anchor_boot, created, started, ended)
        SELECT 'chains', CAST(c.id AS VARCHAR(64)), c.label, c."user",
            CASE WHEN e.epoch = c.epoch THEN c.state ELSE 'failed' END,
            CASE WHEN e.epoch = c.epoch THEN {_STATUS.format(state="c.state")} ELSE 'FAILED' END,
            CASE WHEN e.epoch = c.epoch THEN c.reason
                ELSE coalesce({last.format(what="h.reason")}, '') END,
            e.epoch,
            CASE WHEN e.epoch = c.epoch THEN c.due ELSE NULL END,
            c.anchor_wall, c.anchor_mono, c.anchor_boot,
            coalesce({first}, c.created), {sent},
            CASE WHEN e.epoch <> c.epoch THEN coalesce({last.format(what="h.at")}, c.modified)
                WHEN c.state IN {_ENDED} THEN coalesce(c.ended, c.modified) ELSE NULL END
        FROM (
            SELECT chain_id, epoch FROM old_execution
            UNION SELECT chain_id, epoch FROM old_chain_run
            UNION SELECT id, epoch FROM chain WHERE state <> 'draft'
        ) e JOIN chain c ON c.id = e.chain_id
        ORDER BY e.chain_id, e.epoch
    """)
    op.add_column("chain", sa.Column("run", _number_type()))
    op.execute("""
        UPDATE chain SET run = (SELECT r.id FROM run r WHERE r.engine = 'chains'
            AND r.ref = CAST(chain.id AS VARCHAR(64)) AND r.epoch = chain.epoch)
        WHERE state <> 'draft'
    """)
    _carry_approvals()


def _carry_approvals() -> None:
    op.execute("""
        INSERT INTO approval (subject, subject_id, asked_by, state, created)
        SELECT 'run', CAST(c.run AS VARCHAR(64)), c."user",
            CASE WHEN c.approved_by <> '' THEN 'granted'
                WHEN c.state = 'pending_approval' THEN 'asked' ELSE 'void' END,
            r.created
        FROM chain c JOIN run r ON r.id = c.run
        WHERE c.approved_by <> '' OR c.state = 'pending_approval'
    """)
    op.execute("""
        UPDATE run SET approval = (SELECT a.id FROM approval a
            WHERE a.subject = 'run' AND a.subject_id = CAST(run.id AS VARCHAR(64)))
    """)
    op.execute("""
        INSERT INTO approval_vote (approval, operator, word, at)
        SELECT r.approval, c.approved_by, 'approve', coalesce((
            SELECT max(h.at) FROM old_chain_history h
            WHERE h.chain_id = c.id AND h.subject = 'chain' AND h.event = 'approve'), r.created)
        FROM chain c JOIN run r ON r.id = c.run WHERE c.approved_by <> ''
    """)


def _run_of(table: str) -> str:
    """Return the join of an old table with the run of its chain and epoch."""
    return (
        f"JOIN run r ON r.engine = 'chains' AND r.ref = CAST({table}.chain_id AS VARCHAR(64))"
        f" AND r.epoch = {table}.epoch"
    )


def _carry_executions() -> None:
    op.execute(f"""
        INSERT INTO execution (id, run, engine, kind, ref, minion, position, epoch, state, status,
            reason, attempts, created, started, ended, retcode, comment, changes)
        SELECT e.id, r.id, 'chains', coalesce(a.repeat, ''), CAST(e.action_id AS VARCHAR(64)),
            e.minion, e.sort_order, e.epoch, e.state, e.state, e.reason,
            CASE WHEN e.started IS NULL THEN 0 ELSE 1 END, e.created, e.started,
            CASE WHEN e.state IN {_FINAL} THEN coalesce(e.ended, e.started, e.created) END,
            e.retcode, e.comment, e.changes
        FROM old_execution e {_run_of("e")} LEFT JOIN action a ON a.id = e.action_id
        ORDER BY e.id
    """)
    op.execute("""
        INSERT INTO chain_execution (execution, chunk, boundary, delay_seconds, picked_up,
            picked_mono, picked_host_boot, picked_host, boot_id)
        SELECT id, chunk, waits_for, delay_seconds, picked_up, picked_mono, picked_host_boot,
            picked_host, boot_id
        FROM old_execution WHERE chunk > 0 ORDER BY id
    """)
    _index("ix_execution_run_minion", "execution", ["run", "minion"])
    _index("ix_execution_run_status", "execution", ["run", "status"])
    _index("ix_execution_open_state", "execution", ["state"], "ended IS NULL")


def _carry_minions() -> None:
    """Say of each minion how far it is: fenced, over, waiting, running or sent."""
    some = (
        "EXISTS (SELECT 1 FROM execution e {join} WHERE e.run = r.id AND e.minion = m.minion"
        " AND {rule})"
    )
    waits = some.format(
        join="JOIN chain_execution x ON x.execution = e.id",
        rule="e.state = 'RUNNING' AND x.picked_up IS NOT NULL",
    )
    begun = some.format(join="", rule="e.state NOT IN ('NEW', 'PENDING_SCHEDULE')")
    lost = some.format(join="", rule="e.state = 'LOST'")
    op.execute(f"""
        INSERT INTO chain_minion (run, minion, machine_id, jid, manifest, boot_id, state,
            fence_jid, fence_tries, fence_at, fence_why, disowned, over_ssh)
        SELECT r.id, m.minion, m.machine_id, m.jid, m.manifest, m.boot_id,
            CASE WHEN m.fence THEN 'fenced'
                WHEN NOT m.open AND {lost} THEN 'lost' WHEN NOT m.open THEN 'ended'
                WHEN {waits} THEN 'waiting' WHEN {begun} THEN 'running' ELSE 'sent' END,
            m.fence_jid, m.fence_tries, m.fence_at, m.fence_why, m.disowned, m.over_ssh
        FROM old_chain_run m {_run_of("m")} ORDER BY m.jid, m.minion
    """)
    # Hosts over SSH of a chain under way that were not looked at yet join it later.
    binary = "BYTEA" if op.get_bind().dialect.name == "postgresql" else "BLOB"
    op.execute(f"""
        INSERT INTO chain_minion (run, minion, machine_id, manifest, state)
        SELECT d.run, d.minion, '', CAST('' AS {binary}), 'pending' FROM (
            SELECT DISTINCT e.run, e.minion FROM execution e JOIN run r ON r.id = e.run
            WHERE r.state IN ('dispatched', 'running') AND e.state = 'PENDING_SCHEDULE'
                AND NOT EXISTS (
                    SELECT 1 FROM chain_minion m WHERE m.run = e.run AND m.minion = e.minion)
        ) d
    """)
    op.execute(f"""
        INSERT INTO chain_chunk (run, minion, number, file, sha256, boundary, state)
        SELECT r.id, k.minion, k.number, k.file, k.sha256, k.boundary, k.state
        FROM old_chain_chunk k {_run_of("k")} ORDER BY r.id, k.minion, k.number
    """)


def _carry_history() -> None:
    """Carry the history over, in its order; a note about a draft belongs to no run."""
    op.execute("""
        INSERT INTO history (id, subject, subject_id, run, source, event, target, actor, who, at,
            reason)
        SELECT h.id,
            CASE h.subject WHEN 'chain' THEN CASE WHEN r.id IS NULL THEN 'chain' ELSE 'run' END
                WHEN 'action' THEN 'execution' WHEN 'chunk' THEN 'chain_chunk'
                ELSE 'chain_minion' END,
            CASE h.subject WHEN 'chain' THEN coalesce(r.id, h.chain_id)
                WHEN 'action' THEN coalesce(e.id, 0) WHEN 'chunk' THEN coalesce(k.id, 0)
                ELSE coalesce(m.id, 0) END,
            r.id, h.source, h.event, h.target,
            CASE WHEN h."by" = '' THEN 'system' WHEN h.minion = h."by" THEN 'agent'
                WHEN EXISTS (SELECT 1 FROM minion n WHERE n.id = h."by") THEN 'agent'
                ELSE 'api' END,
            h."by", h.at, h.reason
        FROM old_chain_history h
        LEFT JOIN run r ON r.engine = 'chains' AND r.ref = CAST(h.chain_id AS VARCHAR(64))
            AND r.epoch = h.epoch
        LEFT JOIN execution e ON h.subject = 'action' AND e.run = r.id
            AND e.ref = CAST(h.number AS VARCHAR(64))
        LEFT JOIN chain_chunk k ON h.subject = 'chunk' AND k.run = r.id AND k.minion = h.minion
            AND k.number = h.number
        LEFT JOIN chain_minion m ON h.subject = 'late' AND m.run = r.id AND m.minion = h.minion
        ORDER BY h.id
    """)


def _finish() -> None:
    """Make the indexes, drop what was carried over, and set the counters of ids."""
    _index("ix_history_run", "history", ["run"])
    _index("ix_history_subject_subject_id", "history", ["subject", "subject_id"], "run IS NULL")
    _index("ix_chain_minion_jid", "chain_minion", ["jid"])
    live = "state <> 'ended'"
    _index("ix_chain_minion_live_minion", "chain_minion", ["minion", "state"], live)
    _index("ix_chain_minion_live_state", "chain_minion", ["state", "jid"], live)
    _index("ix_chain_chunk_state", "chain_chunk", ["state"])
    for table in ("chain_history", "chain_chunk", "chain_run", "execution"):
        op.drop_table(f"old_{table}")
    _narrow_chains()
    if op.get_bind().dialect.name == "postgresql":
        for table in ("execution", "history"):
            op.execute(
                f"SELECT setval('{table}_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM {table}),"
                " false)"
            )


def _narrow_chains() -> None:
    """Drop the columns that the run has; make `run` a key of its table."""
    for column in ("state", "due"):
        op.drop_index(f"ix_chain_{column}", "chain")
    for column in _MOVED:
        op.drop_column("chain", column)
    _index("ix_chain_run", "chain", ["run"])

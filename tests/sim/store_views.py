"""Subqueries on a master's tables for the checkers of the simulation."""

from __future__ import annotations

CHAIN = """(
    SELECT c.*, coalesce(r.state, 'draft') AS state, coalesce(r.reason, '') AS reason
    FROM chain c LEFT JOIN run r ON r.id = c.run)"""
#: Runs on minions.
RUN = """(
    SELECT m.*, CAST(r.ref AS INTEGER) AS chain_id, r.epoch
    FROM chain_minion m JOIN run r ON r.id = m.run)"""
EXECUTION = """(
    SELECT e.id, e.minion, e.state, e.reason, e.comment, e.epoch, e.position AS sort_order,
        CAST(r.ref AS INTEGER) AS chain_id, CAST(e.ref AS INTEGER) AS action_id,
        coalesce(x.chunk, 0) AS chunk, x.picked_up
    FROM execution e JOIN run r ON r.id = e.run
    LEFT JOIN chain_execution x ON x.execution = e.id)"""
#: Moves of chains ("run") and executions.
HISTORY = """(
    SELECT h.*, CAST(r.ref AS INTEGER) AS chain_id, r.epoch, e.minion,
        CAST(e.ref AS INTEGER) AS number
    FROM history h JOIN run r ON r.id = h.run
    LEFT JOIN execution e ON h.subject = 'execution' AND e.id = h.subject_id)"""

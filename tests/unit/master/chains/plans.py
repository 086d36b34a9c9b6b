"""Plans of chains to render."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from catena.client.requests.chains import ChainAction
from catena.master.chains.actions import check
from catena.master.chains.render import ChainPlan, PlannedAction

CASES = Path(__file__).parents[3] / "cases" / "chains"

MACHINE = "df00a3b56f3aa159746b8c835eaaeede"


def planned(number: int, kind: str, **data: Any) -> PlannedAction:
    return PlannedAction(number, check(ChainAction(kind, data)))


NAMES = sorted(path.name for path in CASES.iterdir())


def plan_of(name: str) -> ChainPlan:
    """Return the plan of a recorded case."""
    case = json.loads((CASES / name / "case.json").read_text())
    actions = [planned(a["id"], a["kind"], **a["data"]) for a in case["actions"]]
    plan = ChainPlan(case["chain_id"], MACHINE, actions, case.get("agent_packages", ()), epoch=3)
    return replace(plan, transactional=case.get("transactional", False))

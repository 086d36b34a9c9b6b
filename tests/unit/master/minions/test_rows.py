from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from catena import reactors
from catena.master.minions.rows import resumable
from catena.reactors.reaction import parse

SHIPPED = Path(reactors.__file__).with_name("resume_action_chain.sls")
POINT = {"actionchain_id": 12, "epoch": 3, "boot_id": "b"}


def test_waiting_run_is_named_to_agents_that_take_it() -> None:
    assert resumable(2, POINT) == {"actionchain_id": 12, "epoch": 3}
    assert resumable(1, POINT) == {}


@pytest.mark.parametrize(
    "pending",
    [
        {},
        {"error": "malformed"},
        {"actionchain_id": "12", "epoch": 3},
        {"actionchain_id": True, "epoch": 3},
        {"actionchain_id": 12},
        {"actionchain_id": 12, "epoch": 0},
        {"actionchain_id": -1, "epoch": 1},
        {"actionchain_id": 2**63, "epoch": 1},
        {"actionchain_id": 12, "epoch": 10**30},
    ],
)
def test_resume_file_that_makes_no_sense_names_no_run(pending: dict[str, Any]) -> None:
    assert resumable(2, pending) == {}


@pytest.mark.parametrize("named", [None, {}, {"actionchain_id": 12, "epoch": 3}])
def test_shipped_reaction_names_the_run_that_the_start_event_names(named: Any) -> None:
    data = {"id": "web1"} if named is None else {"id": "web1", "resume": named}
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    env.filters["json"] = env.filters["tojson"]
    text = env.from_string(SHIPPED.read_text("utf-8")).render(data=data)
    (reaction,) = parse(yaml.safe_load(text), SHIPPED.name)
    assert (reaction.tgt, reaction.tgt_type) == ("web1", "list")
    assert (reaction.args, reaction.kwargs) == ((), named or {})

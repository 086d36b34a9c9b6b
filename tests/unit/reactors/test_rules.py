from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import ConfigError
from catena.reactors.rules import DEFAULTS, parse


def test_globs_cross_slashes_as_in_salt() -> None:
    (rule,) = parse([{"salt/*/start": "/srv/x.sls"}], defaults=False)
    assert rule.matches("salt/minion/web1/start")
    assert not rule.matches("salt/minion/web1/stop")


def test_shipped_rule_resumes_chains_on_minion_start() -> None:
    rules = [rule for rule in parse([], defaults=True) if rule.matches("salt/minion/web1/start")]
    names = [Path(file).name for rule in rules for file in rule.files]
    assert "resume_action_chain.sls" in names


def test_shipped_rules_come_first_and_name_packaged_files() -> None:
    site = [{"salt/*/start": "/srv/x.sls"}]
    *shipped, last = parse(site, defaults=True)
    assert len(shipped) == len(DEFAULTS)
    assert all(rule.shipped and Path(file).is_file() for rule in shipped for file in rule.files)
    assert not last.shipped
    assert parse(site, defaults=False) == (last,)


@pytest.mark.parametrize("entry", [{"a": 1}, {"a": ["x", 2]}, {"a": "x", "b": "y"}, {}])
def test_entry_is_refused_unless_it_is_glob_to_files(entry: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        parse([entry], defaults=False)

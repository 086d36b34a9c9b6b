from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import ConfigError
from catena.reactors.rules import parse


def test_globs_cross_slashes_as_in_salt() -> None:
    (rule,) = parse([{"salt/*/start": "/srv/x.sls"}], defaults=False)
    assert rule.matches("salt/minion/web1/start")
    assert not rule.matches("salt/minion/web1/stop")


def test_the_shipped_rule_resumes_chains_on_minion_start() -> None:
    (rule,) = parse([], defaults=True)
    assert rule.matches("salt/minion/web1/start")
    assert Path(rule.files[0]).name == "resume_action_chain.sls"
    assert Path(rule.files[0]).is_file()


@pytest.mark.parametrize("entry", [{"a": 1}, {"a": ["x", 2]}, {"a": "x", "b": "y"}, {}])
def test_an_entry_that_is_not_glob_to_files_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        parse([entry], defaults=False)

"""pkg.* functions for repositories, with apt's files in a folder of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg import choice
from catena.modules.pkg.repos import apt, functions
from tests.support.openpgp_keys import CURVE, CURVE_ID, RSA, RSA_ID
from tests.unit.states.conftest import MakeWorld

LINE = "deb http://a.example/ x main"


class Tool:
    """A package manager that counts how often indexes are fetched."""

    def __init__(self, name: str = "apt") -> None:
        self.name = name
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setattr(choice, "provider", lambda context: made)
    return made


@pytest.fixture
def context(
    world: MakeWorld, tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Context:
    monkeypatch.setattr(apt, "FOLDER", tmp_path / "apt")
    return world(files={"repo.asc": RSA}).context


def test_repository_is_made_shown_and_removed(context: Context, tool: Tool) -> None:
    made = functions.mod_repo(context, LINE, comps="main,contrib")
    assert made[LINE]["comps"] == ["main", "contrib"] and tool.refreshed == 1
    assert functions.mod_repo(context, LINE, comps="main,contrib") == {
        LINE: functions.get_repo(context, LINE)
    }
    assert tool.refreshed == 1
    assert list(functions.list_repos(context)) == ["http://a.example/"]
    assert "has been removed from" in functions.del_repo(context, f"{LINE} contrib")
    assert functions.get_repo(context, LINE) == {} and tool.refreshed == 2
    for gone in (LINE, "no line"):
        with pytest.raises(CommandExecutionError, match=r"doesn't exist in the sources\.list"):
            functions.del_repo(context, gone)


def test_keys_are_added_shown_and_removed(context: Context) -> None:
    assert functions.get_repo_keys(context) == {}
    assert functions.add_repo_key(context, "salt://repo.asc") is True
    assert functions.add_repo_key(context, text=CURVE, keyfile="mine.gpg") is True
    assert set(functions.get_repo_keys(context)) == {CURVE_ID, RSA_ID}
    assert functions.del_repo_key(context, keyid=CURVE_ID) == CURVE_ID
    assert set(functions.get_repo_keys(context)) == {RSA_ID}
    with pytest.raises(UsageError, match="keyid or keyid_ppa"):
        functions.del_repo_key(context)
    with pytest.raises(UsageError, match="name a key"):
        functions.add_repo_key(context)


def test_unknown_package_manager_is_refused(context: Context, tool: Tool) -> None:
    tool.name = "pacman"
    with pytest.raises(CommandExecutionError, match="repositories of pacman"):
        functions.list_repos(context)

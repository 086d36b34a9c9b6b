"""pkgrepo states with apt's files in a folder of a test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.redact import MASK
from catena.modules.pkg import choice
from catena.modules.pkg.repos import apt, functions
from catena.modules.pkg.repos.functions import FRESH
from catena.modules.pkg.repos.openpgp import binary_keyring
from catena.states import pkgrepo
from tests.support.openpgp_keys import CURVE
from tests.unit.states.conftest import MakeWorld

LINE = "deb http://a.example/ x main"
TEST_MODE = (
    "This may cause pkg states to behave differently than stated if this action is repeated "
    "without test=True, due to the differences in the configured repositories."
)


class Tool:
    """A package manager that counts how often indexes are fetched."""

    name = "apt"

    def __init__(self) -> None:
        self.refreshed = 0
        self.fails = ""

    def refresh(self) -> None:
        self.refreshed += 1
        if self.fails:
            raise CommandExecutionError(self.fails)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setattr(choice, "provider", lambda context: made)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "apt"
    (found / "sources.list.d").mkdir(parents=True)
    monkeypatch.setattr(apt, "FOLDER", found)
    return found


@pytest.fixture
def context(world: MakeWorld, tool: Tool, folder: Path) -> Context:
    return world(files={"k.asc": CURVE, "page": "<html>"}).context


def test_new_repository_is_configured_once(context: Context, tool: Tool, folder: Path) -> None:
    testing = context.with_(test=True)
    foretold = pkgrepo.managed(testing, LINE)
    assert foretold.result is None and foretold.changes == {"repo": LINE}
    assert foretold.comment == f"Package repo '{LINE}' would be configured. {TEST_MODE}"
    assert not (folder / "sources.list").exists() and tool.refreshed == 0
    made = pkgrepo.managed(context, LINE)
    assert (made.result, made.changes) == (True, {"repo": LINE})
    assert made.comment == f"Configured package repo '{LINE}'"
    assert tool.refreshed == 1 and context.scratch[FRESH] is True
    for again in (pkgrepo.managed(context, LINE), pkgrepo.managed(testing, LINE)):
        assert (again.result, again.changes) == (True, {})
        assert again.comment == f"Package repo '{LINE}' already configured"
    assert tool.refreshed == 1


def test_indexes_count_as_old_when_a_repository_changes_without_refresh(
    context: Context, tool: Tool
) -> None:
    context.scratch[FRESH] = True
    pkgrepo.managed(context, LINE, refresh=False)
    assert tool.refreshed == 0 and FRESH not in context.scratch


def test_failed_refresh_is_reported_with_the_change(context: Context, tool: Tool) -> None:
    tool.fails = "no network"
    made = pkgrepo.managed(context, LINE)
    assert (made.result, made.changes) == (False, {"repo": LINE})
    assert made.comment.startswith(f"Failed to configure repo '{LINE}'")
    assert made.comment.endswith("no network")


@pytest.mark.parametrize(
    ("options", "comment"),
    [
        ({"enabled": True, "disabled": False}, "Only one of enabled/disabled is allowed"),
        ({"repo": "x"}, "'repo' is not a supported argument for this state."),
        ({"key_url": "salt://k.asc", "key_text": "x"}, "You may not use both"),
        ({"key_url": "http://a.example/k", "allow_insecure_key": False}, "Cannot have 'key_url'"),
        ({"key_url": "salt://page"}, "Failed to configure repo"),
        ({"key_url": "salt://none"}, "Failed to configure repo"),
        ({"file": "a.list"}, "Failed to configure repo"),
    ],
)
@pytest.mark.parametrize("test", [False, True])
def test_bad_arguments_fail_and_write_nothing(
    context: Context, folder: Path, options: dict[str, Any], comment: str, test: bool
) -> None:
    made = pkgrepo.managed(context.with_(test=test), LINE, **options)
    assert made.result is False and not made.changes
    assert made.comment.startswith(comment)
    assert [path.name for path in folder.rglob("*")] == ["sources.list.d"]


def test_name_that_is_no_line_fails(context: Context) -> None:
    made = pkgrepo.managed(context, "nginx")
    assert made.result is False
    assert "This must be the complete repo entry as seen in the sources file" in made.comment
    assert pkgrepo.absent(context, "nginx").comment == "Package repo nginx is absent"


def test_key_over_http_is_warned_of(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    from catena.modules.pkg.repos import keys

    monkeypatch.setattr(keys, "_by_address", lambda *_: binary_keyring(CURVE.encode(), "k"))
    made = pkgrepo.managed(
        context, "deb [signed-by=/none/k.gpg] http://a.example/ x main",
        key_url="http://a.example/k",
    )  # fmt: skip
    assert "without TLS" in made.warnings[0]


def test_repository_is_removed_once(context: Context, tool: Tool, folder: Path) -> None:
    path = folder / "sources.list.d" / "a.list"
    path.write_text(f"{LINE}\n")
    foretold = pkgrepo.absent(context.with_(test=True), LINE)
    assert (foretold.result, foretold.changes) == (None, {})
    assert foretold.comment == f"Package repo '{LINE}' will be removed. {TEST_MODE}"
    made = pkgrepo.absent(context, LINE)
    assert (made.result, made.changes) == (True, {"repo": LINE})
    assert made.comment == f"Removed repo {LINE}" and not path.exists()
    again = pkgrepo.absent(context, LINE)
    assert (again.result, again.comment) == (True, f"Package repo {LINE} is absent")
    assert tool.refreshed == 1


def test_copr_archive_is_enabled_by_a_command(
    context: Context, tool: Tool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from catena.modules.pkg.repos import functions, rpm

    ran: list[str] = []
    tool.name = "dnf"
    monkeypatch.setattr(rpm, "DNF", rpm.RepoDialect((tmp_path,), {}))
    monkeypatch.setattr(functions, "run", lambda context, *words: ran.append(" ".join(words)))
    foretold = pkgrepo.managed(context.with_(test=True), "x", copr="owner/tool")
    assert foretold.result is None and foretold.changes == {"repo": "x"} and ran == []
    made = pkgrepo.managed(context, "x", copr="owner/tool")
    assert made.result is True and ran == ["dnf -y copr enable owner/tool"]
    assert tool.refreshed == 0


def test_repository_of_dnf_is_configured_once(
    context: Context, tool: Tool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from catena.modules.pkg.repos import rpm

    tool.name = "dnf"
    monkeypatch.setattr(rpm, "DNF", rpm.RepoDialect((tmp_path,), {}))
    options: dict[str, Any] = {"humanname": "Tools", "baseurl": "http://a.example/", "gpgcheck": 0}
    assert pkgrepo.managed(context.with_(test=True), "tools", **options).result is None
    assert not (tmp_path / "tools.repo").exists()
    made = pkgrepo.managed(context, "tools", **options)
    assert (made.result, made.changes) == (True, {"repo": "tools"})
    again = pkgrepo.managed(context, "tools", **options)
    assert again.comment == "Package repo 'tools' already configured"
    off = pkgrepo.managed(context, "tools", disabled=True, **options)
    assert off.changes == {"enabled": {"old": "1", "new": "0"}}
    assert pkgrepo.absent(context, "tools").comment == "Removed repo tools"
    assert pkgrepo.absent(context, "tools").comment == "Package repo tools is absent"
    assert tool.refreshed == 0


SECRET = "deb https://bob:s3cret@a.example/ x main"
HIDDEN = f"deb https://bob:{MASK}@a.example/ x main"


def test_password_of_an_address_is_written_but_never_shown(
    context: Context, tool: Tool, folder: Path
) -> None:
    path = folder / "sources.list"
    shown: list[Any] = [pkgrepo.managed(context.with_(test=True), SECRET)]
    shown.append(pkgrepo.managed(context, SECRET))
    assert path.read_text() == f"{SECRET}\n"
    assert shown[1].changes == {"repo": HIDDEN}
    shown.append(pkgrepo.managed(context, SECRET))
    shown.append(pkgrepo.managed(context, SECRET.replace("s3cret", "s3cret2"), comps="other"))
    shown += [call(context) for call in (functions.list_repos,)]
    shown.append(functions.get_repo(context, SECRET))
    shown.append(functions.mod_repo(context, SECRET, comps="more"))
    tool.fails = f"cannot fetch {SECRET}"
    shown.append(pkgrepo.managed(context, SECRET, dist="z"))
    assert shown[-1].result is False
    tool.fails = ""
    shown.append(pkgrepo.absent(context, SECRET))
    assert "s3cret" not in repr(shown)


def test_hidden_password_is_not_written(context: Context, folder: Path) -> None:
    found = pkgrepo.managed(context, HIDDEN)
    assert found.result is False
    assert "the password of the address is hidden" in found.comment
    with pytest.raises(UsageError, match="uri: the password"):
        functions.mod_repo(context, LINE, uri=f"https://bob:{MASK}@a.example/")
    assert not (folder / "sources.list").exists()


def test_failed_refresh_is_repeated_by_the_next_run(
    world: MakeWorld, tool: Tool, folder: Path
) -> None:
    tool.fails = "no network"
    assert pkgrepo.managed(world().context, LINE).result is False
    again = pkgrepo.managed(world().context, LINE)
    assert again.result is False and "no network" in again.comment
    assert tool.refreshed == 2
    assert pkgrepo.managed(world().context.with_(test=True), LINE).result is True
    assert pkgrepo.managed(world().context, LINE, refresh=False).result is True
    assert tool.refreshed == 2
    tool.fails = ""
    mended = pkgrepo.managed(world().context, LINE)
    assert (mended.result, mended.changes) == (True, {})
    assert "the last refresh had failed" in mended.comment
    assert pkgrepo.managed(world().context, LINE).comment.endswith("already configured")
    assert tool.refreshed == 3


def test_note_of_a_failed_refresh_holds_no_password(
    world: MakeWorld, tool: Tool, folder: Path
) -> None:
    tool.fails = "no network"
    made = world().context
    pkgrepo.managed(made, SECRET)
    (note,) = made.host.cache_dir.glob("pkg_refresh_due*")
    assert "s3cret" not in note.read_text()
    note.write_text("{damaged")
    assert pkgrepo.managed(world().context, SECRET).result is True

"""The sources of apt in a folder of a test's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CatenaError, UsageError
from catena.modules.pkg.repos.apt import AptRepositories
from catena.modules.pkg.repos.openpgp import binary_keyring
from catena.modules.pkg.repos.plan import RepoPlan, write_files
from tests.support.openpgp_keys import CURVE, CURVE_FINGERPRINT, RSA, RSA_FINGERPRINT
from tests.unit.states.conftest import MakeWorld

LINE = "deb http://a.example/ x main"
STANZA = """\
Types: deb
URIs: http://a.example/
Suites: x x-updates
Components: main
Signed-By: /usr/share/keyrings/a.gpg
"""


class Apt:
    """apt's folder, and calls that plan and write."""

    def __init__(self, context: Context, folder: Path) -> None:
        self.folder = folder
        self.parts = folder / "sources.list.d"
        self.parts.mkdir(parents=True)
        self.repos = AptRepositories(context, folder)

    def write(self, name: str, text: str) -> Path:
        path = self.parts / name
        path.write_text(text)
        return path

    def plan(self, repo: str, **options: Any) -> RepoPlan:
        return self.repos.planned(repo, options, "base")

    def change(self, repo: str, **options: Any) -> RepoPlan:
        """Carry out a plan; a second one has nothing to write."""
        plan = self.plan(repo, **options)
        write_files(plan.files)
        again = self.plan(repo, **options)
        assert again.files == () and again.changes == {}
        assert again.after == {**plan.after, **_places(again.after)}
        return plan

    def remove(self, repo: str) -> RepoPlan:
        plan = self.repos.removal(repo, {})
        write_files(plan.files)
        assert self.repos.removal(repo, {}).files == ()
        return plan


def _places(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("types", "uris", "suites")} if entry else {}


@pytest.fixture
def apt(world: MakeWorld, tmp_path: Path) -> Apt:
    return Apt(world(files={"k.asc": CURVE, "other.asc": RSA}).context, tmp_path / "apt")


def test_all_files_are_listed_by_address(apt: Apt) -> None:
    (apt.folder / "sources.list").write_text(f"# {LINE}\n")
    apt.write("a.sources", STANZA)
    apt.write("b.list", "deb [arch=amd64 trusted=yes] http://b.example y main #why\nodd\n")
    apt.write("b.list.save", "deb http://c.example y main\n")
    found = apt.repos.listed({})
    assert set(found) == {"http://a.example/", "http://b.example"}
    off, first, second = found["http://a.example/"]
    assert off["disabled"] and not off["enabled"] and off["line"] == f"# {LINE}"
    assert (first["dist"], second["dist"]) == ("x", "x-updates")
    assert first["suites"] == ["x", "x-updates"]
    assert first["signedby"] == "/usr/share/keyrings/a.gpg"
    assert found["http://b.example"] == [
        {
            "file": str(apt.parts / "b.list"), "comps": ["main"], "disabled": False,
            "enabled": True, "dist": "y", "suites": ["y"], "type": "deb", "types": ["deb"],
            "uri": "http://b.example", "uris": ["http://b.example"], "architectures": ["amd64"],
            "line": "deb [arch=amd64 trusted=yes] http://b.example y main #why",
            "signedby": "", "trusted": True, "comments": "why",
        }
    ]  # fmt: skip


def test_new_source_is_added_to_the_named_file(apt: Apt) -> None:
    assert apt.repos.entry(LINE, {}) == {}
    path = apt.write("a.list", "# mine")
    assert apt.change(LINE, file=str(path)).changes == {"repo": LINE}
    assert path.read_text() == f"# mine\n{LINE}\n"
    new = apt.parts / "new.sources"
    apt.change("deb [arch=amd64,i386] http://b.example y main", file=str(new))
    assert new.read_text() == (
        "Types: deb\nURIs: http://b.example\nSuites: y\nComponents: main\n"
        "Architectures: amd64 i386\n"
    )
    assert new.stat().st_mode & 0o777 == 0o644
    apt.change("deb http://c.example z main")
    assert (apt.folder / "sources.list").read_text() == "deb http://c.example z main\n"


def test_present_source_is_changed_in_its_file(apt: Apt) -> None:
    path = apt.write("a.list", f"# top\n{LINE}\n\ndeb http://b.example y main\n")
    plan = apt.change(LINE, comps="main,contrib", file=str(apt.parts / "other.list"))
    assert plan.changes == {
        "comps": {"old": ["main"], "new": ["main", "contrib"]},
        "line": {"old": LINE, "new": f"{LINE} contrib"},
    }
    assert path.read_text() == f"# top\n{LINE} contrib\n\ndeb http://b.example y main\n"
    assert not (apt.parts / "other.list").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"architectures": "amd64,i386"}, "deb [arch=amd64,i386] http://a.example/ x main"),
        ({"trusted": True}, "deb [trusted=yes] http://a.example/ x main"),
        ({"signedby": "/k.gpg"}, "deb [signed-by=/k.gpg] http://a.example/ x main"),
        ({"dist": "z"}, "deb http://a.example/ z main"),
        ({"uri": "http://b.example"}, "deb http://b.example x main"),
        ({"disabled": True}, f"# {LINE}"),
        ({"enabled": False}, f"# {LINE}"),
        ({"comments": ["one", "two"]}, f"{LINE} #one two"),
        ({"comps": ["a", "main"]}, "deb http://a.example/ x a main"),
    ],
)
def test_options_change_the_line(apt: Apt, options: dict[str, Any], line: str) -> None:
    path = apt.write("a.list", f"{LINE}\n")
    assert apt.change(LINE, **options).changes
    assert path.read_text() == f"{line}\n"


def test_odd_spelling_is_no_change(apt: Apt) -> None:
    path = apt.write("a.list", "deb  [ trusted=yes  arch=i386,amd64 ]  http://a.example x  b  a\n")
    line = "deb [arch=amd64,i386 trusted=yes] http://a.example/ x a b"
    plan = apt.change(line)
    assert plan.files == () and not plan.plain
    assert path.read_text().startswith("deb  [")


def test_comment_of_a_line_stays(apt: Apt) -> None:
    path = apt.write("a.list", f"{LINE} #mine\n")
    apt.change(LINE, comps="contrib,main")
    assert path.read_text() == "deb http://a.example/ x contrib main #mine\n"


def test_source_in_a_stanza_is_changed_there(apt: Apt) -> None:
    path = apt.write("a.sources", STANZA)
    assert apt.change(LINE).files == ()
    plan = apt.change(LINE, comps="main,contrib")
    assert plan.changes["comps"] == {"old": ["main"], "new": ["main", "contrib"]}
    assert path.read_text() == (
        "Types: deb\nURIs: http://a.example/\nSuites: x\nComponents: main contrib\n"
        "Signed-By: /usr/share/keyrings/a.gpg\n\n"
        "Types: deb\nURIs: http://a.example/\nSuites: x-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/a.gpg\n"
    )


def test_file_is_emptied_first_with_clean_file(apt: Apt) -> None:
    path = apt.write("a.list", "deb http://old.example y main\n# and this\n")
    apt.change(LINE, file=str(path), clean_file=True)
    assert path.read_text() == f"{LINE}\n"


def test_doubles_are_merged_with_consolidate(apt: Apt) -> None:
    path = apt.write("a.list", f"{LINE}\n# note\n{LINE} contrib\ndeb http://b.example y main\n")
    apt.change(LINE, comps="main,extra", consolidate=True)
    assert path.read_text() == f"{LINE} extra\n# note\ndeb http://b.example y main\n"


@pytest.mark.parametrize(
    ("repo", "options", "why"),
    [
        ("nothing", {}, "complete repo entry"),
        ("deb http://a.example", {}, "complete repo entry"),
        (LINE, {"file": "a.list"}, "not an absolute path"),
        (LINE, {"dist": "x y"}, "can't be written"),
        (LINE, {"comps": "main\ndeb http://evil.example y main"}, "can't be written"),
        (LINE, {"key_text": CURVE, "signedby": "ABCDEF"}, "is no path"),
        ("ppa:a", {}, "is not ppa:OWNER/NAME"),
        ("deb http://a.example x", {}, "needs a component"),
    ],
)
def test_bad_arguments_are_refused(apt: Apt, repo: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        apt.plan(repo, **options)


def test_key_is_written_before_the_source(apt: Apt) -> None:
    ring, path = apt.folder / "keyrings" / "k.gpg", apt.parts / "a.list"
    line = f"deb [signed-by={ring} arch=amd64] http://a.example/ x main"
    plan = apt.change(line, key_url="salt://k.asc", aptkey=False, file=str(path))
    assert [file for file, _ in plan.files] == [ring, path]
    assert plan.changes == {"repo": line} and plan.warnings == ()
    assert ring.read_bytes() == binary_keyring(CURVE.encode(), "k")
    changed = apt.change(line, key_url="salt://other.asc")
    assert changed.changes == {"key": {"old": [CURVE_FINGERPRINT], "new": [RSA_FINGERPRINT]}}
    assert [file for file, _ in changed.files] == [ring]


def test_key_without_signed_by_gets_a_keyring_and_a_warning(apt: Apt) -> None:
    path, ring = apt.parts / "a.list", apt.folder / "keyrings" / "a.example-deb.gpg"
    plan = apt.change("deb http://a.example/deb x main", key_text=CURVE, file=str(path))
    assert path.read_text() == f"deb [signed-by={ring}] http://a.example/deb x main\n"
    assert ring.is_file() and "signed-by=" in plan.warnings[0]


def test_keyring_of_the_present_source_is_used(apt: Apt, tmp_path: Path) -> None:
    ring = tmp_path / "mine.asc"
    apt.write("a.list", f"deb [signed-by={ring}] http://a.example/ x main\n")
    apt.change(LINE, key_url="salt://k.asc")
    assert ring.read_text() == CURVE


def test_key_that_is_none_leaves_everything(apt: Apt) -> None:
    path = apt.parts / "a.list"
    with pytest.raises(CatenaError, match="HTML"):
        apt.plan(LINE, key_text="<html>", file=str(path))
    assert not path.exists()


def test_removal_leaves_other_lines(apt: Apt) -> None:
    path = apt.write("a.list", f"{LINE}\n# note\n")
    alone = apt.write("b.list", "\n# deb http://b.example y main\n")
    apt.remove(LINE)
    assert path.read_text() == "# note\n"
    assert "has been removed" in apt.remove("deb http://b.example y main").told
    assert not alone.exists()
    assert apt.remove("not a line").files == ()


def test_removal_takes_only_the_named_components(apt: Apt) -> None:
    path = apt.write("a.list", f"{LINE} contrib\ndeb [arch=i386] http://a.example/ x main\n")
    apt.remove(LINE)
    assert path.read_text() == (
        "deb http://a.example/ x contrib\ndeb [arch=i386] http://a.example/ x main\n"
    )


def test_removal_divides_a_stanza(apt: Apt) -> None:
    path = apt.write("a.sources", STANZA)
    apt.remove(LINE)
    assert path.read_text() == STANZA.replace("x x-updates", "x-updates")
    apt.remove("deb http://a.example/ x-updates main")
    assert not path.exists()


def test_files_are_read_once_until_they_change(apt: Apt, monkeypatch: pytest.MonkeyPatch) -> None:
    from catena.modules.file import content

    path = apt.write("a.list", f"{LINE}\n")
    seen: list[Path] = []
    read = content.read

    def noted(path: Path) -> bytes:
        seen.append(path)
        return read(path)

    monkeypatch.setattr(content, "read", noted)
    for _ in range(100):
        assert apt.repos.entry(LINE, {})
    assert seen == [path]
    path.write_text("")
    os.utime(path, ns=(1, 1))
    assert not apt.repos.entry(LINE, {})

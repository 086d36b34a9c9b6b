"""The documentation says what the code does, as far as that can be checked without running it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from catena.cli.commands import cli
from catena.client.requests import contracts
from catena.core import events
from catena.core.config.master import MasterSettings
from catena.core.config.minion import MinionSettings
from catena.master.chains.document import read
from tests.unit.reference_pages import FOLDER, PAGES, ROOT, commands, is_used, sources

DOCS = ROOT / "docs"
TEXTS = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_that_of_the_code(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), (
        f"docs/reference/{name} is old: run make docs"
    )


@pytest.mark.parametrize("kind", [MasterSettings, MinionSettings])
def test_every_setting_is_used_by_some_code(kind: type[Any]) -> None:
    unused = [field.name for field in dataclasses.fields(kind) if not is_used(field.name)]
    assert not unused, "a setting that nothing reads promises what nobody does"


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {
        (DOCS / target).resolve()
        for target in _LINK.findall(index.read_text(encoding="utf-8"))
        if "://" not in target
    }
    # The pages of modules are linked from the page of all functions.
    functions = FOLDER / "functions.md"
    linked |= {
        (FOLDER / target).resolve()
        for target in _LINK.findall(functions.read_text(encoding="utf-8"))
        if "://" not in target
    }
    assert {path for path in DOCS.rglob("*.md") if path != index} <= linked


def test_every_generated_page_of_a_module_is_of_a_module_that_exists() -> None:
    found = {
        str(path.relative_to(FOLDER))
        for folder in ("functions", "states")
        for path in (FOLDER / folder).glob("*.md")
    }
    assert found <= PAGES.keys()


def shown_commands(page: Path) -> list[list[str]]:
    """Return the words of each `catena …` line that a page shows in its code."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(
        body for kind, body in _FENCE.findall(text) if kind in ("", "sh", "console")
    )
    indented = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    found = []
    for line in f"{fenced}\n{indented}".splitlines():
        words = line.strip().removeprefix("# ").removeprefix("$ ").split()
        if words[:1] == ["catena"]:
            found.append(words[1:])
    return found


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    known = {name.split()[1] if " " in name else "": c for name, c in commands(cli, "catena")}
    paths = {tuple(name.split()[1:]): command for name, command in commands(cli, "catena")}
    for words in shown_commands(page):
        path = tuple(words[:2]) if tuple(words[:2]) in paths else tuple(words[:1])
        if words and words[0].startswith(("-", "COMMAND", "[")):
            continue
        assert path in paths, f"{page.name}: catena {' '.join(words)}"
        options = {name for param in paths[path].params for name in param.opts}
        options |= {name for param in known[""].params for name in param.opts} | {"-h", "--help"}
        for word in words:
            if word == "#":
                break
            if re.match(r"--[a-z][a-z-]+$", word):
                assert word in options, f"{page.name}: catena {' '.join(words)}: {word}"


def chain_files() -> list[Any]:
    found = [pytest.param(ROOT / "examples" / "chain.yaml", None, id="examples/chain.yaml")]
    for page in TEXTS:
        for number, (kind, body) in enumerate(_FENCE.findall(page.read_text(encoding="utf-8"))):
            if kind == "yaml" and re.search(r"^actions:", body, re.MULTILINE):
                found.append(pytest.param(page, body, id=f"{page.relative_to(ROOT)}:{number}"))
    return found


@pytest.mark.parametrize(("page", "body"), chain_files())
def test_every_chain_file_shown_is_accepted(tmp_path: Path, page: Path, body: str | None) -> None:
    file = page
    if body is not None:
        file = tmp_path / "chain.yaml"
        file.write_text(body, encoding="utf-8")
        for script in re.findall(r"script: (\S+)", body):
            (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / script).write_text("#!/bin/sh\n", encoding="utf-8")
        for wheel in re.findall(r"upgrade_agent: (\S+\.whl)", body):
            (tmp_path / wheel).write_bytes(b"")
    assert read(file).request.entries


def test_page_of_events_names_every_tag() -> None:
    text = (FOLDER / "events.md").read_text(encoding="utf-8")
    tags = [
        events.minion_start("ID"),
        events.minion_refused("ID"),
        events.job_new("JID"),
        events.job_ret("JID", "ID"),
        events.run_new("JID"),
        events.run_ret("JID"),
        events.AUTH,
        events.KEY,
        events.PRESENCE_CHANGE,
    ]
    for tag in tags:
        assert f"`{tag}`" in text, tag


def test_no_tag_is_spelled_in_the_code_and_missing_on_the_page() -> None:
    """Tags that are not made by events.py stand in the code as f-strings."""
    text = (FOLDER / "events.md").read_text(encoding="utf-8")
    spelled = set()
    for room in ("master", "reactors"):
        for path in (ROOT / room).rglob("*.py"):
            code = path.read_text(encoding="utf-8")
            spelled |= set(re.findall(r'f"((?:salt|catena)/minion/\{\w+\}/\w+)"', code))
    assert spelled
    for tag in spelled:
        assert f"`{re.sub(r'{.*}', 'ID', tag)}`" in text, tag


def test_tags_that_nobody_sends_are_not_promised() -> None:
    """events.py keeps names of tags that the master does not send yet; the page says so."""
    text = (FOLDER / "events.md").read_text(encoding="utf-8")
    unsent = text.partition("## Not sent")[2]
    code = sources()
    for name, tag in {
        "job_prog": events.job_prog("JID", "ID", 1),
        "wheel_new": events.wheel_new("JID"),
        "wheel_ret": events.wheel_ret("JID"),
        "PRESENCE_PRESENT": events.PRESENCE_PRESENT,
    }.items():
        sent = bool(re.search(rf"events\.{name}\b", code))
        assert sent != (f"`{tag.removesuffix('/1')}" in unsent), tag


#: Commands of the verbs that have another name than their command.
COMMANDS_OF_VERBS = {
    "blob.put": "uploads of files",
    "job.run": "run",
    "key.change": "key accept",
    "runner.call": "runner event.send",
}
#: Commands in the table of repeated commands that send no verb of this name.
OTHER_REPEATED = {"key reject", "key delete", "key rotate", "other runners"}


def repeated_commands() -> set[str]:
    """Return the commands in durability.md's table of repeated commands."""
    text = (DOCS / "explanation" / "durability.md").read_text(encoding="utf-8")
    _, _, rows = text.partition("| command | effect of a repetition")
    found, group = set(), ""
    for row in rows.partition("\n\n")[0].splitlines()[2:]:
        for item in row.split("|")[1].split(", "):
            words = item.strip().strip("`").split(" ", 1)
            if words[0] in ("chain", "key"):
                group = words[0]
            elif item.strip().startswith("`") and group and len(words) == 1:
                words = [group, *words]
            found.add(" ".join(words))
        group = ""
    return found


def test_table_of_repeated_commands_names_every_changing_verb() -> None:
    changing = [name for name, ask in contracts().items() if not ask.idempotent]
    expected = {
        COMMANDS_OF_VERBS.get(name, name.replace(".", " ").replace("_", "-")) for name in changing
    }
    assert repeated_commands() == expected | OTHER_REPEATED

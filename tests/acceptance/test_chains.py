"""Action chains through the installed command, with pretended reboots of real minions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import Fleet

from tests.acceptance.chain_scripts import note, script, statuses, witness
from tests.acceptance.conftest import make_fleet, running, write_tree


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    yield from running(make_fleet({"web1": {}, "web2": {}, "db1": {}}))


def shown(fleet: Fleet, label: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        fleet.catena("chain", "show", label, "--out", "json").stdout
    )
    return found


def test_chain_with_a_reboot_runs_each_action_once_on_every_minion(fleet: Fleet) -> None:
    run = script(fleet, "first", note(fleet, "once", "first"))
    fleet.catena("chain", "create", "night")
    fleet.catena("chain", "add", "night", "-t", "*", "--script", run)
    fleet.catena("chain", "add", "night", "-t", "*", "--reboot")
    fleet.catena("chain", "add", "night", "-t", "*", "--cmd", note(fleet, "once", "second"))
    fleet.catena("chain", "add", "night", "-t", "web1", "--highstate")
    boots = {name: (fleet.home(name) / "boot_id").read_text() for name in fleet.minions}
    done = fleet.catena("chain", "schedule", "night", "--watch", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert statuses(fleet, "night") == {
        "web1": ["Completed"] * 4, "web2": ["Completed"] * 3, "db1": ["Completed"] * 3,
    }  # fmt: skip
    wanted = Counter(
        f"{fleet.home(name)}:{word}" for name in fleet.minions for word in ("first", "second")
    )
    assert witness(fleet, "once") == wanted
    for name, before in boots.items():
        assert (fleet.home(name) / "boot_id").read_text() != before
        assert not list((fleet.home(name) / "etc/catena/minion.d").glob("_mgractionchains*"))
    assert "Traceback" not in done.stdout


def test_failed_action_stops_only_its_minion_and_can_be_retried(fleet: Fleet) -> None:
    gate = fleet.folder / "gate"
    fleet.catena("chain", "create", "gated")
    fleet.catena("chain", "add", "gated", "-t", "web*", "--cmd", note(fleet, "gated", "before"))
    test = f'case "$CATENA_DEMO_HOST" in *web1) test -e {gate};; esac'
    fleet.catena("chain", "add", "gated", "-t", "web*", "--cmd", test)
    fleet.catena("chain", "add", "gated", "-t", "web*", "--cmd", note(fleet, "gated", "after"))
    done = fleet.catena("chain", "schedule", "gated", "--watch", check=False)
    assert done.returncode == 1
    assert "Prerequisite failed" in done.stdout
    assert statuses(fleet, "gated") == {
        "web1": ["Completed", "Failed", "Failed"], "web2": ["Completed"] * 3,
    }  # fmt: skip
    gate.touch()
    fleet.catena("chain", "retry", "gated")
    again = fleet.catena("chain", "watch", "gated", check=False)
    assert again.returncode == 0, again.stdout
    assert statuses(fleet, "gated")["web1"] == ["Completed"] * 3
    one, two = str(fleet.home("web1")), str(fleet.home("web2"))
    assert witness(fleet, "gated") == Counter(
        {f"{one}:before": 1, f"{one}:after": 1, f"{two}:before": 1, f"{two}:after": 1}
    )


def test_preview_reports_changes_and_makes_none(fleet: Fleet) -> None:
    fleet.catena("chain", "create", "careful")
    fleet.catena("chain", "add", "careful", "-t", "web1", "--cmd", note(fleet, "careful", "ran"))
    fleet.catena("chain", "add", "careful", "-t", "web1", "--reboot")
    before = (fleet.home("web1") / "boot_id").read_text()
    done = fleet.catena("chain", "preview", "careful", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not witness(fleet, "careful")
    assert (fleet.home("web1") / "boot_id").read_text() == before
    fleet.catena("chain", "delete", "careful")


def test_state_that_says_test_false_changes_nothing_in_test_mode(fleet: Fleet) -> None:
    made = fleet.folder / "lifted"
    write_tree(fleet.folder / "states", {
        "lifted.sls": f"lifted:\n  file.managed:\n  - name: {made}\n  - contents: x\n"
                      "  - test: False\n  - unless: 'false'\n",
    })  # fmt: skip
    done = fleet.catena("run", "web1", "state.apply", "lifted", "test=True", check=False)
    assert "is set to be changed" in done.stdout, done.stdout
    fleet.catena("chain", "create", "lifted")
    fleet.catena("chain", "add", "lifted", "-t", "web1", "--apply", "lifted")
    done = fleet.catena("chain", "preview", "lifted", check=False)
    assert "is set to be changed" in done.stdout, done.stdout
    assert "1 command in onlyif, unless and check_cmd is outside the guard" in done.stdout
    assert not made.exists()
    fleet.catena("chain", "delete", "lifted")


def test_calls_of_templates_in_test_mode_are_counted_and_named(fleet: Fleet) -> None:
    write_tree(fleet.folder / "states", {
        "calling.sls": "{% from 'calling.jinja' import it %}\n"
                       "{% do salt['cmd.run']('true') %}\n"
                       "{{ salt['grains.get']('id') }}: test.nop\n",
        "calling.jinja": "{% set it = salt['cmd.retcode']('true') %}\n",
        "only_calling.sls": "{% do salt['cmd.run']('true') %}\n",
    })  # fmt: skip
    named = "cmd.retcode in salt://calling.sls; cmd.run in salt://calling.sls"
    sentence = f"Unguarded: 2 calls in templates ({named}) are outside the guard of test mode"
    done = fleet.catena("run", "web1", "state.apply", "calling", "test=True", check=False)
    assert sentence in done.stdout, done.stdout
    done = fleet.catena("run", "web1", "state.apply", "calling", check=False)
    assert "Unguarded" not in done.stdout, done.stdout
    fleet.catena("chain", "create", "calling")
    fleet.catena("chain", "add", "calling", "-t", "web1", "--apply", "calling")
    fleet.catena("chain", "add", "calling", "-t", "web1", "--apply", "only_calling")
    done = fleet.catena("chain", "preview", "calling", check=False)
    assert sentence in done.stdout, done.stdout
    assert "Unguarded: 1 call in templates (cmd.run in salt://only_calling.sls)" in done.stdout
    assert "Unguarded: 3 calls in templates" in done.stdout
    fleet.catena("chain", "delete", "calling")


def test_chain_waits_for_approval_and_can_be_cancelled(fleet: Fleet) -> None:
    fleet.catena("chain", "create", "asked")
    fleet.catena("chain", "add", "asked", "-t", "web1", "--cmd", note(fleet, "asked", "ran"))
    fleet.catena("chain", "schedule", "asked", "--approve-required")
    assert shown(fleet, "asked")["state"] == "pending_approval"
    fleet.catena("chain", "cancel", "asked")
    assert shown(fleet, "asked")["state"] == "cancelled"
    assert not witness(fleet, "asked")


def test_chain_is_created_from_a_file_and_its_entries_can_be_edited(fleet: Fleet) -> None:
    write_tree(fleet.folder / "files", {
        "chain.yaml": "label: written\ntarget: web1\nactions:\n- cmd: 'false'\n- script: s.sh\n"
                      "- apply: base\n  target: {grain: 'id:db1'}\n",
        "s.sh": "#!/bin/sh\ntrue\n",
    })  # fmt: skip
    fleet.catena("chain", "apply", str(fleet.folder / "files/chain.yaml"))
    assert statuses(fleet, "written") == {"web1": ["Queued"] * 2, "db1": ["Queued"]}
    fleet.catena("chain", "edit", "written", "0", "--cmd", "true")
    fleet.catena("chain", "move", "written", "2", "0")
    fleet.catena("chain", "remove-entry", "written", "2")
    done = fleet.catena("chain", "schedule", "written", "--watch", check=False)
    assert done.returncode == 0, done.stdout
    assert statuses(fleet, "written") == {"web1": ["Completed"], "db1": ["Completed"]}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["create", "a\nb"], "label"),
        (["add", "none-such", "-t", "*", "--reboot"], "none-such"),
        (["schedule", "none-such"], "none-such"),
        (["show", "999999"], "999999"),
        (["add", "x", "-t", "*", "--reboot", "--highstate"], "exactly one"),
        (["add", "x", "-t", "*"], "--script"),
        (["schedule", "x", "--at", "tomorrow"], "is not a time"),
    ],
)
def test_invalid_chain_request_is_refused_with_the_reason(
    fleet: Fleet, words: list[str], text: str
) -> None:
    done = fleet.catena("chain", *words, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr

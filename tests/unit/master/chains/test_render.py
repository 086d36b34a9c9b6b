"""Chunk files against the reference, byte for byte (cases in tests/cases/chains)."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from catena.core.errors import CatenaError
from catena.core.job import ActionKind, Boundary
from catena.master import chains as sls
from catena.master.chains.actions import restore
from catena.master.chains.render import ChainPlan, PlannedAction, UnrenderableError, render
from tests.unit.master.chains.plans import CASES, MACHINE, NAMES, plan_of, planned


@pytest.mark.parametrize("name", NAMES)
def test_chunks_are_those_of_the_case_byte_for_byte(name: str) -> None:
    case = json.loads((CASES / name / "case.json").read_text())
    rendered = render(plan_of(name))
    expected = [path.read_text() for path in sorted((CASES / name).glob("*.sls"))]
    assert [chunk.text for chunk in rendered.chunks] == expected
    boundaries = [chunk.boundary.value for chunk in rendered.manifest.chunks]
    assert boundaries == case.get("boundaries", ["none"] * len(expected))
    for chunk in rendered.chunks:
        assert chunk.manifest.sha256 == sha256(chunk.text.encode()).hexdigest()
        assert chunk.manifest.size == len(chunk.text.encode())


def test_files_are_named_by_chain_machine_and_chunk() -> None:
    names = [
        render(ChainPlan(45, machine, [planned(1, "cmd", cmd="true")])).chunks[0].file
        for machine in (MACHINE, "dec27e1bc3cffa7749c965c15eaca15c")
    ]
    assert names == [
        "actionchain_45_df00a3b56f3aa159746b8c835eaaeede_1.sls",
        "actionchain_45_dec27e1bc3cffa7749c965c15eaca15c_1.sls",
    ]


def test_manifest_names_every_action_with_its_crash_rule() -> None:
    actions = [
        planned(1, "script", sha256="0" * 64),
        planned(2, "reboot"),
        planned(3, "highstate"),
    ]
    manifest = render(ChainPlan(5, MACHINE, actions, epoch=2)).manifest
    assert (manifest.chain_id, manifest.machine_id, manifest.epoch) == (5, MACHINE, 2)
    first, second = manifest.chunks
    assert [(a.action_id, a.kind) for a in first.actions] == [
        (1, ActionKind.once),
        (2, ActionKind.reboot),
    ]
    assert first.boundary is Boundary.reboot
    assert second.actions[0].state_id == "mgr_actionchain_5_action_3_chunk_2"
    assert second.sls == f"actionchains.actionchain_5_{MACHINE}_2"


def test_chain_of_reboots_has_a_chunk_for_each() -> None:
    actions = [planned(n, "reboot") for n in range(1, 4)]
    chunks = render(ChainPlan(1, MACHINE, actions)).chunks
    assert [chunk.manifest.boundary for chunk in chunks] == [
        Boundary.reboot,
        Boundary.reboot,
        Boundary.none,
    ]
    assert "schedule_next_chunk" not in chunks[2].text


def test_removing_the_agent_is_no_upgrade_of_it() -> None:
    actions = [planned(1, "remove", packages=[["catena", ""]]), planned(2, "highstate")]
    assert len(render(ChainPlan(1, MACHINE, actions, ["catena"])).chunks) == 1


@pytest.mark.parametrize(
    ("stored", "written"),
    [
        ({"mods": ["web"]}, "    -   mods: web\n"),
        ({"mods": ["web"], "listed": True}, "    -   mods:\n        - web\n"),
        ({"mods": ["web", "db"]}, "    -   mods:\n        - web\n        - db\n"),
    ],
)
def test_stored_actions_keep_text_or_list(stored: dict[str, Any], written: str) -> None:
    action = PlannedAction(1, restore("apply", stored, "idempotent"))
    text = render(ChainPlan(1, MACHINE, [action])).chunks[0].text
    assert text.endswith(written)
    assert restore("apply", action.plan.stored(), "idempotent") == action.plan


@pytest.mark.parametrize(
    "name", ["catena", "catena.x86_64", "catena:amd64", "catena:s390x", "catena.s390x"]
)
def test_agent_package_is_known_with_an_architecture(name: str) -> None:
    actions = [planned(1, "upgrade", packages=[[name, ""]])]
    chunks = render(ChainPlan(1, MACHINE, actions, ["catena"])).chunks
    assert len(chunks) == 2
    assert chunks[1].text.endswith(f"    -   pkgs:\n        - {name}\n")


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ([["a", "x86-64", ""]], "architecture 'x86-64'.*x86_64"),
        ([["a", "b", "c", "d"]], "a name and a version"),
        ([["a.x86_64", ""], ["a", "x86_64", "1"]], "'a.x86_64' is named twice"),
    ],
)
def test_odd_packages_are_refused(packages: list[list[str]], said: str) -> None:
    with pytest.raises(CatenaError, match=said):
        planned(1, "install", packages=packages)


@pytest.mark.parametrize(("family", "mark"), [("Debian", ":"), ("RedHat", ".")])
@pytest.mark.parametrize("kind", ["install", "upgrade", "remove"])
def test_shipped_sls_join_name_and_architecture(kind: str, family: str, mark: str) -> None:
    folder = Path(sls.__file__).parent / "sls" / "packages"
    source = (folder / f"pkg{kind}.sls").read_text()
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    pillar = {"param_pkgs": [["a", ""], ["b", "arm64", "1.0"], ["c", "arm64", ""], ["d", "2"]]}
    text = environment.from_string(source).render(grains={"os_family": family}, pillar=pillar)
    found = [
        package
        for declaration in yaml.safe_load(text).values()
        for arguments in declaration.values()
        for argument in arguments
        for package in argument.get("pkgs", [])
    ]
    fixed = [] if kind == "remove" else [{f"b{mark}arm64": "1.0"}, {"d": "2"}]
    bare = ["a", f"c{mark}arm64"] if fixed else ["a", f"b{mark}arm64", f"c{mark}arm64", "d"]
    assert [package for package in found if isinstance(package, dict)] == fixed
    assert [package for package in found if isinstance(package, str)] == bare


def test_rendering_again_gives_the_same_bytes() -> None:
    kinds = [planned(1, "cmd", cmd="true"), planned(2, "reboot"), planned(3, "highstate")]
    first, second = (render(ChainPlan(9, MACHINE, list(kinds), epoch=2)) for _ in "12")
    assert [chunk.text for chunk in first.chunks] == [chunk.text for chunk in second.chunks]
    assert first.manifest == second.manifest


def test_nothing_to_render_is_an_error() -> None:
    with pytest.raises(UnrenderableError):
        render(ChainPlan(1, MACHINE, []))


@pytest.mark.parametrize("machine", ["../../etc/passwd", "a/b", "", "a\nb"])
def test_machine_id_that_is_no_name_is_refused(machine: str) -> None:
    with pytest.raises(CatenaError):
        render(ChainPlan(1, machine, [planned(1, "cmd", cmd="true")]))

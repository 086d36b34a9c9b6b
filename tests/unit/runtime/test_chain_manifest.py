from __future__ import annotations

import dataclasses

import pytest

from catena.core.errors import LimitError, UsageError
from catena.core.job import ActionKind, ActionManifest, Boundary, ChainManifest
from catena.runtime.chain_manifest import actions_of, check
from tests.unit.runtime.manifests import CHUNK, MANIFEST

REFERENCE = """\
mgr_actionchain_131_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_runas: foobar
                mgr_remote_cmd_script: salt://scripts/script_1.sh
mgr_actionchain_131_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: system.reboot
    -   at_time: 1
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_1_chunk_1
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 131
    -   chunk: 2
    -   next_action_id: 3
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_2_chunk_1
"""


def test_actions_and_their_repeat_kinds_are_read_from_a_chunk() -> None:
    assert actions_of(REFERENCE) == (
        ActionManifest(1, "mgr_actionchain_131_action_1_chunk_1", ActionKind.once),
        ActionManifest(2, "mgr_actionchain_131_action_2_chunk_1", ActionKind.reboot),
    )


def test_highstate_is_idempotent_and_a_command_is_not() -> None:
    text = REFERENCE.replace("    -   mods: remotecommands\n", "").replace(
        "system.reboot", "cmd.run"
    )
    assert [a.kind for a in actions_of(text)] == [ActionKind.idempotent, ActionKind.once]


@pytest.mark.parametrize(
    ("mods", "kind"),
    [
        ("    -   mods:\n        - remotecommands\n", ActionKind.once),
        ("    -   mods:\n        -   web\n        -   'remotecommands'\n", ActionKind.once),
        ("    -   mods:\n        - web\n", ActionKind.idempotent),
    ],
)
def test_listed_sls_say_what_a_crash_means(mods: str, kind: ActionKind) -> None:
    text = REFERENCE.replace("    -   mods: remotecommands\n", mods)
    assert actions_of(text)[0].kind is kind


def test_list_of_another_argument_does_not_count_as_sls() -> None:
    items = "    -   mods:\n        - web\n    -   name: x\n"
    text = REFERENCE.replace("    -   mods: remotecommands\n", items).replace(
        "mgr_remote_cmd_runas: foobar\n", "hosts:\n                - remotecommands\n", 1
    )
    assert actions_of(text)[0].kind is ActionKind.idempotent


def refusal(manifest: ChainManifest) -> str:
    """Return why a manifest of chain 131 for machine "abc" is refused; "" if it is accepted."""
    try:
        check(manifest, 131, "abc")
    except UsageError as error:
        return str(error)
    return ""


def test_valid_manifest_is_accepted() -> None:
    assert refusal(MANIFEST) == ""


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (dataclasses.replace(MANIFEST, chain_id=7), "of chain 7"),
        (dataclasses.replace(MANIFEST, machine_id="x"), "rendered for machine"),
        (dataclasses.replace(MANIFEST, chunks=()), "no chunks"),
        (
            dataclasses.replace(
                MANIFEST, chunks=(dataclasses.replace(CHUNK, sls="actionchains/../../x"),)
            ),
            "is named",
        ),
        (
            dataclasses.replace(MANIFEST, chunks=(dataclasses.replace(CHUNK, number=2),)),
            "number 2",
        ),
    ],
)
def test_invalid_manifest_is_refused_with_the_reason(manifest: ChainManifest, why: str) -> None:
    assert why in refusal(manifest)


@pytest.mark.parametrize(
    ("boundaries", "why"),
    [
        ((Boundary.reboot, Boundary.agent_upgrade, Boundary.none), ""),
        ((Boundary.none, Boundary.none), "chunk 1 ends without a boundary, but chunk 2 follows"),
        ((Boundary.reboot, Boundary.reboot), "the last chunk, 2, ends with the boundary 'reboot'"),
        ((Boundary.agent_upgrade,), "the last chunk, 1, ends with the boundary 'agent_upgrade'"),
    ],
)
def test_chunk_has_a_boundary_exactly_when_another_one_follows(
    boundaries: tuple[Boundary, ...], why: str
) -> None:
    chunks = tuple(
        dataclasses.replace(
            CHUNK, number=n, sls=f"actionchains.actionchain_131_abc_{n}", boundary=boundary
        )
        for n, boundary in enumerate(boundaries, 1)
    )
    found = refusal(dataclasses.replace(MANIFEST, chunks=chunks))
    assert why in found and bool(why) == bool(found)


def test_manifest_with_more_chunks_than_the_limit_is_refused() -> None:
    chunks = tuple(
        dataclasses.replace(CHUNK, number=n, sls=f"actionchains.actionchain_131_abc_{n}")
        for n in range(1, 1002)
    )
    with pytest.raises(LimitError):
        check(dataclasses.replace(MANIFEST, chunks=chunks), 131, "abc")

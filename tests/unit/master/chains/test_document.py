"""Chain files: what they come to, and errors that name file and line."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from catena.core.errors import CatenaError
from catena.master.chains.document import read

TEXT = """\
label: patch-day
target: 'web*'
actions:
- script: collect.sh
  runas: nobody
- apply: [web, app]
  pillar: {port: 8080}
- install: [nginx, curl=8.5.0]
  target: {grain: 'os:Debian'}
- reboot
- reboot:
  at_time: 2
  target: [web1, web2]
- highstate
- call: test.echo
  args: [hello]
  repeat: idempotent
- upgrade_agent: 1.2.3
"""


def write(folder: Path, text: str) -> Path:
    (folder / "collect.sh").write_text("#!/bin/sh\n")
    path = folder / "chain.yaml"
    path.write_text(text)
    return path


def test_file_becomes_a_request_and_its_uploads(tmp_path: Path) -> None:
    found = read(write(tmp_path, TEXT))
    digest = sha256(b"#!/bin/sh\n").hexdigest()
    assert found.request.label == "patch-day"
    assert found.uploads == {digest: tmp_path / "collect.sh"}
    kinds = [(e["action"]["kind"], e["action"]["data"]) for e in found.request.entries]
    assert kinds == [
        ("script", {"sha256": digest, "name": "collect.sh", "runas": "nobody"}),
        ("apply", {"mods": ["web", "app"], "pillar": {"port": 8080}}),
        ("install", {"packages": [["nginx", ""], ["curl", "8.5.0"]]}),
        ("reboot", {}),
        ("reboot", {"at_minutes": 2}),
        ("highstate", {}),
        ("call", {"fun": "test.echo", "args": ["hello"]}),
        ("upgrade_agent", {"version": "1.2.3"}),
    ]
    targets = [(e["tgt"], e["tgt_type"]) for e in found.request.entries]
    assert targets[0] == ("web*", "glob")
    assert targets[2] == ("os:Debian", "grain")
    assert targets[4] == ("web1,web2", "list")
    assert found.request.entries[6]["action"]["repeat"] == "idempotent"


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("web", {"mods": ["web"]}),
        ("[web]", {"mods": ["web"], "listed": True}),
        ("[web, app]", {"mods": ["web", "app"]}),
    ],
)
def test_text_is_distinguished_from_a_list_of_one(
    tmp_path: Path, given: str, data: dict[str, object]
) -> None:
    text = f"target: a\nactions:\n- apply: {given}\n"
    (entry,) = read(write(tmp_path, text)).request.entries
    assert entry["action"]["data"] == data


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("actions:\n- scirpt: collect.sh\n  target: a\n", "chain.yaml:2: .*'script'"),
        ("actons: []\n", "chain.yaml:1: .*'actions'"),
        ("target: a\nactions:\n- cmd: x\n  pillar: {}\n", "chain.yaml:4: "),
        ("target: a\nactions:\n- script: none.sh\n", "chain.yaml:3: there is no file"),
        ("target: a\nactions:\n- cmd: x\n  reboot:\n", "one kind, not cmd and reboot"),
        ("actions:\n- highstate\n", "chain.yaml:2: no target"),
        ("target: a\nactions:\n- call: state\n", "chain.yaml:3: 'state' is not a function"),
        ("target: a\nactions:\n- reboot:\n  at_time: 9999999\n", "chain.yaml:3: the delay"),
        ("target: a\nactions:\n- reboot:\n  at_tme: 9\n", "chain.yaml:4: .*'at_time'"),
        ("target: {grian: x}\nactions:\n- reboot\n", "chain.yaml:3: .*'grain'"),
        ("target: a\nactions: []\n", "chain.yaml:2: "),
        ("- x\n", "chain.yaml: expected a mapping"),
        ("target: [\n", "chain.yaml:"),
    ],
)
def test_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CatenaError, match=said):
        read(write(tmp_path, text))

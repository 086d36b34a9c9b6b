"""Chains through rendering, runtime and results, without sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catena.client.requests.blobs import BlobPut
from catena.client.requests.chains import ChainRef, ChainSchedule
from catena.core.config.minion import MinionSettings
from catena.core.job import ChainManifest, JobReturn, JobSpec
from catena.core.payloads import of_chain
from catena.core.records import decode
from catena.fileserver.roots import RootsClient
from catena.master.chains import document
from catena.master.chains.files import SHIPPED
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.runtime.executor import execute
from catena.runtime.host import AfterKind, AgentHome
from catena.runtime.session import local_session
from tests.integration.master.chains.bench import Bench

EXAMPLES = Path(__file__).parents[4] / "examples"
PILLAR = {"site": "here", "fleet": [{"name": "web1", "address": "10.0.0.11"}], "web": {"port": 81}}


@dataclass
class Host:
    """One pretended machine: folders, a boot id, and the runtime that a minion's job runs in."""

    folder: Path
    bench: Bench
    tree: Path
    boot: int = 1
    name: str = "web1"

    def __post_init__(self) -> None:
        for part in ("conf", "cache", "pki", "root"):
            (self.folder / part).mkdir(parents=True, mode=0o700)
        (self.folder / "boot_id").write_text(f"{self.name}-boot-1\n")

    def _spec(self, jid: str, fun: str, args: tuple[Any, ...], chain: Any) -> JobSpec:
        manifest = decode(ChainManifest, chain, "manifest") if chain else None
        payload = of_chain(manifest) if manifest else None
        return JobSpec(jid, fun, args, payload=payload, epoch=payload.epoch if payload else 0)

    async def run(self, jid: str, fun: str, *args: Any) -> tuple[JobReturn, bool]:
        """Run a job as the minion would, tell the master; return (return, whether it reboots)."""
        run = await self.bench.store.read(
            lambda conn: conn.execute(
                CHAIN_MINIONS.select().where(CHAIN_MINIONS.c.jid == jid)
            ).first()
        )
        steps: list[dict[str, Any]] = []
        settings = MinionSettings(
            boot_id_file=str(self.folder / "boot_id"), reboot_command=["/bin/true"]
        )
        grains = {
            "id": self.name,
            "role": "web",
            "demo_root": str(self.folder / "root"),
            "num_cpus": 2,
        }
        place = AgentHome(
            settings,
            self.name,
            "machine0",
            self.folder / "conf",
            self.folder / "cache",
            self.folder / "pki",
            grains=grains,
            session=f"agent-{self.boot}",
        )
        session = local_session(
            place,
            RootsClient({"base": [str(self._overlay()), str(self.tree)]}, extra=[str(SHIPPED)]),
            lambda override, *_: ({**PILLAR, **(override or {})}, ()),
            self._spec(jid, fun, args, run.manifest if run else None),
            watch=lambda kind, data: steps.append(data) if kind == "action" else None,
        )
        outcome = execute(session, self._spec(jid, fun, args, run.manifest if run else None))
        for seq, data in enumerate(steps, 1):
            await self.bench.progresses(jid, seq, self.name, **data)
        # Through the form that it has on the wire.
        plain = json.loads(json.dumps(outcome.ret.value))
        ret = JobReturn(**{**vars(outcome.ret), "value": plain})
        await self.bench.returns(ret, self.name)
        after = outcome.after
        return ret, after is not None and after.kind is AfterKind.reboot

    def _overlay(self) -> Path:
        folder = self.folder / "overlay"
        for path, real in self.bench.files.overlay(self.name).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(real.read_bytes())
        folder.mkdir(exist_ok=True)
        return folder

    async def reboot(self) -> None:
        self.boot += 1
        boot_id = f"{self.name}-boot-{self.boot}"
        (self.folder / "boot_id").write_text(boot_id + "\n")
        await self.bench.starts(boot_id, self.name)


async def go(bench: Bench, host: Host, label: str) -> Mapping[str, Any]:
    """Schedule a chain and run it to its end, rebooting as it says."""
    await bench.chains.service.schedule(ChainSchedule(label), "alice")
    await bench.chains.scheduler.tick()
    view = await bench.show(label)
    jid = view["jids"][0]
    _, reboots = await host.run(jid, "mgractionchains.start", view["id"])
    while reboots:
        await host.reboot()
        bench.clock.advance(1)
        _, reboots = await host.run(bench.jobs.new_jid(), "mgractionchains.resume")
    return await bench.show(label)


def action_lines(view: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(a["title"], a["state"], a["comment"]) for a in view["minions"][0]["actions"]]


async def test_example_chain_runs_to_its_end(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path / "web1", bench, EXAMPLES / "states")
    monkeypatch.setenv("CATENA_DEMO_HOST", str(host.folder))
    read = document.read(EXAMPLES / "chain.yaml")
    for digest, path in read.uploads.items():
        bench.blobs.put(BlobPut(digest, 0, 1, path.read_bytes()))
    await bench.chains.service.apply(read.request, "alice")
    view = await go(bench, host, read.request.label)
    assert [state for _, state, _ in action_lines(view)] == ["DONE"] * 6, action_lines(view)
    assert view["state"] == "done"
    root = host.folder / "root"
    assert "Hello" in (root / "srv/www/index.html").read_text()
    assert "listen = 81" in (root / "etc/web/web.conf").read_text()
    assert len(set((root / "var/log/boots").read_text().split())) == 2
    summaries = [action["summary"] for action in view["minions"][0]["actions"]]
    assert summaries[1] == "2 changed: web_page, web_settings"


async def test_text_typed_by_an_operator_reaches_the_host_unchanged(
    bench: Bench, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "note.sls").write_text(
        "note:\n  file.managed:\n"
        "    - name: {{ grains['demo_root'] }}/note\n"
        "    - contents: {{ pillar['text'] | tojson }}\n"
    )
    host = Host(tmp_path / "web1", bench, tree)
    nasty = "{{ 7*7 }} {% raw %} 'x' \"y\" #z: \\ yes"
    line = f"printf '%s' '{{{{ 7*7 }}}}' > {host.folder}/root/line"
    await bench.apply(
        "odd",
        ("apply", {"mods": ["note"], "pillar": {"text": nasty}}),
        ("cmd", {"cmd": line}),
        ("call", {"fun": "test.echo", "args": ["a: {{ b }}"]}),
    )
    view = await go(bench, host, "odd")
    assert [state for _, state, _ in action_lines(view)] == ["DONE"] * 3, action_lines(view)
    assert (host.folder / "root/note").read_text().rstrip("\n") == nasty
    assert (host.folder / "root/line").read_text() == "{{ 7*7 }}"
    assert view["minions"][0]["actions"][2]["changes"] == {"ret": "a: {{ b }}"}


async def test_failed_script_stops_the_chain_and_retry_continues_from_it(
    bench: Bench, tmp_path: Path
) -> None:
    host = Host(tmp_path / "web1", bench, EXAMPLES / "states")
    flag, log = host.folder / "flag", host.folder / "log"
    await bench.apply(
        "patch",
        ("cmd", {"cmd": f"echo one >> {log}"}),
        ("cmd", {"cmd": f"test -e {flag}"}),
        ("cmd", {"cmd": f"echo three >> {log}"}),
    )
    view = await go(bench, host, "patch")
    assert [state for _, state, _ in action_lines(view)] == ["DONE", "FAILED", "FAILED"], (
        action_lines(view)
    )
    assert view["minions"][0]["actions"][2]["reason"] == "Prerequisite failed"
    flag.touch()
    bench.clock.advance(1)
    await bench.chains.service.retry(ChainRef("patch"), "alice")
    await bench.chains.scheduler.tick()
    view = await bench.show("patch")
    await host.run(view["jids"][0], "mgractionchains.start", view["id"])
    view = await bench.show("patch")
    assert [state for _, state, _ in action_lines(view)] == ["DONE"] * 3, action_lines(view)
    assert log.read_text() == "one\nthree\n"


async def test_preview_changes_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path / "web1", bench, EXAMPLES / "states")
    monkeypatch.setenv("CATENA_DEMO_HOST", str(host.folder))
    await bench.apply(
        "patch",
        ("apply", {"mods": ["web"]}),
        ("reboot", {}),
        ("cmd", {"cmd": f"touch {host.folder}/root/touched"}),
    )
    job = await bench.chains.service.preview(ChainRef("patch"), "alice")
    name = next(iter(bench.files.overlay("web1")))
    sls = name.removesuffix(".sls").replace("/", ".")
    ret, reboots = await host.run(job.jid, "state.sls", sls)
    assert not reboots
    assert list((host.folder / "root").iterdir()) == []
    assert ret.success, ret.value
    assert "would do: Reboot" in json.dumps(ret.value)
    assert "srv/www/index.html" in json.dumps(ret.value)
    names = [row["__id__"] for row in ret.value.values()]
    assert names[:2] == ["action 0, Apply web", "action 1, Reboot"]
    assert names[2].startswith("action 2, Run touch ")


async def test_preview_fails_for_a_function_that_the_minion_does_not_have(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path / "web1", bench, EXAMPLES / "states")
    monkeypatch.setenv("CATENA_DEMO_HOST", str(host.folder))
    await bench.apply(
        "patch",
        ("call", {"fun": "test.pong", "args": [1]}),
        ("call", {"fun": "test.ping"}),
    )
    job = await bench.chains.service.preview(ChainRef("patch"), "alice")
    name = next(iter(bench.files.overlay("web1")))
    sls = name.removesuffix(".sls").replace("/", ".")
    ret, _ = await host.run(job.jid, "state.sls", sls)
    unknown, known = ret.value.values()
    assert (unknown["result"], known["result"]) == (False, True)
    assert unknown["__id__"] == "action 0, Call test.pong"
    assert "test.pong is not available" in unknown["comment"]

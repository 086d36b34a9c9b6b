"""Jobs pushed to a host over pipes: outcomes, transferred files, lost channels."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CatenaError, PeerError
from catena.core.job import JobSpec
from catena.core.unguarded import total
from catena.runtime.push.protocol import RunStep
from catena.ssh.connect.link import Connection
from catena.ssh.connect.target import SshTarget
from catena.ssh.push import job
from catena.ssh.push.compile import seat_of
from catena.ssh.push.program import Program
from catena.ssh.push.visit import Visit
from tests.integration.ssh.push_site import NUMBERS, Site, rows
from tests.support.ssh_cases import connector


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.bench.close()


def test_states_use_files_templates_and_pillar_of_the_master(site: Site) -> None:
    (site.pillar / "top.sls").write_text("base: {'web1': [web], 'db1': [db]}\n")
    (site.pillar / "web.sls").write_text("port: {web: 80}\n80: http\n")
    (site.pillar / "db.sls").write_text("secret: hunter2\n")
    site.write(
        app__sls="""
{% set kind = salt['grains.get']('os_family') %}
{% set here = salt['cmd.run']('echo from the host') %}
conf:
  file.managed:
    - name: @/conf
    - source: salt://conf.j2
    - template: jinja
    - context: {here: {{ here }}}
late:
  file.managed:
    - name: @/late
    - source: salt://late.j2
    - template: jinja
    - require: [{file: conf}]
inner:
  module.run:
    - state.apply: [{mods: inner}, {pillar: {port: {web: 81}}}]
""",
        inner__sls="within:\n  file.managed:\n    - name: @/within\n    - source: salt://conf.j2\n"
        "    - template: jinja\n    - context: {here: inside}\n",
        conf__j2="{{ here }} {{ pillar.port.web }} {{ pillar[80] }} {{ grains.id }}\n",
        late__j2="saw {{ salt['file.read']('@/conf') }}",
    )
    found = site.run("state.apply", "app")
    assert rows(found) == {"conf": True, "late": True, "inner": True}
    assert found.ret.success
    assert site.made("conf") == "from the host 80 http web1\n"
    # Looks at what a state before it has made: rendered when its turn has come.
    assert site.made("late") == "saw from the host 80 http web1\n"
    # States inside states: compiled when they begin, with their own pillar.
    assert site.made("within") == "inside 81 http web1\n"
    everything = b"".join(p.read_bytes() for p in site.bench.room.rglob("*") if p.is_file())
    assert b"hunter2" not in everything
    assert site.bench.debris() == []


def test_second_run_sends_no_existing_content(site: Site) -> None:
    site.write(
        big__sls="x:\n  file.managed: [{name: @/x}, {source: salt://blob}]\n", blob="b" * 100_000
    )
    site.run("state.apply", "big")
    parts = {p: p.stat().st_ctime_ns for p in site.bench.room.glob("parts/objects/*/*")}
    (site.there / "x").unlink()
    assert rows(site.run("state.apply", "big")) == {"x": True}
    assert site.made("x") == "b" * 100_000
    now = {p: p.stat().st_ino for p in site.bench.room.glob("parts/objects/*/*")}
    assert parts.keys() == now.keys()


def test_parallel_states_receive_their_own_answers(site: Site) -> None:
    site.write(
        t__sls="""
{% for n in range(8) %}
t{{ n }}:
  file.managed:
    - {name: @/t{{ n }}, source: salt://t.j2, template: jinja, parallel: True}
    - {context: {n: {{ n }}}}
s{{ n }}:
  module.run:
    - state.single: [{fun: file.managed}, {name: @/s{{ n }}}, {source: 'salt://f{{ n }}'}]
    - parallel: True
{% endfor %}
""",
        t__j2="{{ n }} {{ salt['cmd.run']('echo there') }}",
        **{f"f{n}": f"file {n}" for n in range(8)},
    )
    assert set(rows(site.run("state.apply", "t")).values()) == {True}
    for n in range(8):
        assert site.made(f"t{n}") == f"{n} there"
        assert site.made(f"s{n}") == f"file {n}"


def test_templates_can_detect_a_host_over_ssh(site: Site) -> None:
    site.write(
        t__sls="t:\n  test.nop:\n    - name: '{{ opts.__cli }} {{ opts.__master_opts__.__cli }} "
        "{{ opts.__master_opts__ | length }}'\n"
    )
    (row,) = site.run("state.apply", "t").ret.value.values()
    assert row["name"] == "salt-call salt-ssh 1"


def test_custom_modules_states_and_grains_need_no_sync(site: Site) -> None:
    for name, text in {
        "_modules/mine.py": "def say(x, y=1):\n    return [x, y, __grains__['mine'], "
        "__pillar__.get('p', 'none'), __salt__['slsutil.renderer'](string='{{ 1 + 1 }}')]\n",
        "_grains/own.py": "def mine():\n    return {'mine': 'grain'}\n",
        "_states/have.py": "def it(name):\n    return {'name': name, 'changes': {'a': 'b'}, "
        "'result': True, 'comment': __salt__['mine.say'](1)}\n",
    }.items():
        path = site.states / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    site.write(
        t__sls="{% set said = salt['mine.say']('in', y=2) %}\n"
        "s:\n  have.it: [{name: '{{ said | json }}'}]\n"
    )
    assert site.run("mine.say", "a").ret.value == ["a", 1, "grain", "none", 2]
    found = site.run("state.apply", "t").ret.value
    (row,) = found.values()
    assert json.loads(row["name"]) == ["in", 2, "grain", "none", 2]
    assert row["changes"] == {"a": "b"}


@pytest.mark.parametrize("engine", ["py", "mako"])
def test_code_of_a_host_is_not_run_on_the_master(site: Site, engine: str) -> None:
    proof = site.folder / "proof"
    own = f"#!{engine}\ndef run():\n    open({str(proof)!r}, 'w').close()\n    return 'x'\n"
    (site.there / "own").write_text(own)
    site.write(
        t__sls="t:\n  file.managed:\n"
        f"    [{{name: @/out}}, {{source: @/own}}, {{template: {engine}}}]\n"
        "r:\n  module.run: [{slsutil.renderer: [{path: @/own}]}]\n"
    )
    assert rows(site.run("state.apply", "t")) == {"t": False, "r": False}
    assert not proof.exists()


def test_python_template_named_by_a_state_runs_and_a_mocked_run_calls_nothing(site: Site) -> None:
    site.write(
        t__sls="c:\n  file.managed: [{name: @/c}, {source: salt://c.py}, {template: py}]\n"
        "d:\n  cmd.run: [{name: touch @/d}, {onlyif: touch @/cond}, {prereq: [{file: c}]}]\n",
        c__py="def run():\n    return __salt__['cmd.run']('echo from there')\n",
    )
    mocked = site.run("state.apply", "t", mock=True)
    assert [row["comment"] for row in mocked.ret.value.values()] == ["Not called, mocked"] * 2
    assert list(site.there.iterdir()) == []
    assert rows(site.run("state.apply", "t")) == {"c": True, "d": True}
    assert site.made("c") == "from there"


def test_templates_without_host_calls_are_sent_before_the_run(site: Site) -> None:
    (site.states / "all").mkdir()
    (site.states / "all" / "a").write_text("a {{ grains.id }} {{ pillar.get('x', 1) }}\n")
    (site.states / "all" / "b").write_text("b {{ salt['grains.get']('id') }}\n")
    site.write(
        t__sls="m:\n  file.managed: [{name: @/m}, {source: salt://all/a}, {template: jinja}]\n"
        "r:\n  file.recurse: [{name: @/r}, {source: salt://all}, {template: jinja}]\n"
        "p:\n  file.managed:\n    - {name: @/p, source: salt://all/b, template: jinja}\n"
        "    - prereq: [{file: m}]\n"
    )

    def refused(self: Program, *args: Any) -> None:
        raise AssertionError("the run asked for something")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "supply", refused)
        found = site.run("state.apply", "t")
    assert rows(found) == {"m": True, "r": True, "p": True}
    assert [site.made(name) for name in ("m", "r/a", "r/b", "p")] == [
        "a web1 1\n",
        "a web1 1\n",
        "b web1\n",
        "b web1\n",
    ]


def test_file_filters_in_templates_read_the_target_host(site: Site) -> None:
    site.write(
        t__sls="t:\n  test.succeed_without_changes:\n"
        "    - name: '{{ '@/f' | file_hashsum }} {{ '@/f' | is_text_file }} "
        "{{ 'a' | path_join('b') }}'\n"
    )
    (site.there / "f").write_text("x")
    called: list[str] = []
    original = Program.call

    def call(self: Program, one: Any) -> Any:
        called.append(f"{one.fun} {one.args[0]}")
        return original(self, one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "call", call)
        (row,) = site.run("state.apply", "t").ret.value.values()
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert row["name"] == f"{digest} True a/b"
    assert called == ["jinja.host_filter file_hashsum", "jinja.host_filter is_text_file"]


def test_host_can_return_only_its_own_job(site: Site) -> None:
    collect, poll = Program.collect, Program.poll

    def forged(self: Program, *args: Any) -> Any:
        found = collect(self, *args)
        return replace(found, ret=replace(found.ret, jid="9" * 20, fun="evil.fun", out="evil"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "collect", forged)
        found = site.run("cmd.run", "echo own").ret
    assert (found.fun, found.value, found.out) == ("cmd.run", "own", "")
    assert found.jid.startswith("2026112119")

    def nonsense(self: Program, *args: Any) -> Any:
        return replace(
            poll(self, *args), steps=(RunStep(1, "ask", {"number": "x", "kind": "text"}),)
        )

    def backwards(self: Program, *args: Any) -> Any:
        return replace(poll(self, *args), steps=(RunStep(2, "note"), RunStep(1, "note")))

    def many(self: Program, *args: Any) -> Any:
        return replace(poll(self, *args), steps=(RunStep(10**7, "note"),))

    for forge, words in (
        (nonsense, "web1: a question without a number"),
        (backwards, "web1: steps that go back"),
        (many, "web1: more than 1000000 steps"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Program, "poll", forge)
            with pytest.raises(PeerError, match=words):
                site.run("cmd.run", "true")


#: What a text of a host's own may try -> what comes of it, of the master's folder @.
READS = {
    "{% include '@/secret' %}": "no template",
    "{% include '../secret' %}": "no template",
    "{% include 'link' %}": "no template",
    "{% import_text 'link' as x %}{{ x }}": "no template",
    "{{ salt['jinja.load_map']('../secret', 'x') }}": "leaves the file roots",
    "{{ salt['cp.get_file_str']('salt://../secret') }}": "leaves the file roots",
    "{{ salt['cp.get_file_str']('salt://link') }}": "False",
    "{{ salt['slsutil.renderer'](path='salt://../secret', default_renderer='text') }}": "{}",
    "{{ salt['state.show_sls']('link') }}": "No matching sls",
    "{{ ''.__class__.__mro__ }}": "unsafe",
    "{{ salt['pillar.items']() }}{{ salt['pillar.items']('db') }}": "{'a': 1}{'db': ''}",
    "{{ salt['config.get']('file_roots') }}{{ opts.get('roster_file') }}": "{}None",
    "{{ 'x' * 10 ** 9 }}": "more than",
}


def test_text_of_a_host_rendered_on_the_master_reads_only_the_file_roots(site: Site) -> None:
    (site.folder / "secret").write_text("CANARY")
    (site.states / "link").symlink_to(site.folder / "secret")
    (site.pillar / "top.sls").write_text("base: {'web1': [web], 'db1': [db]}\n")
    (site.pillar / "web.sls").write_text("a: 1\n")
    (site.pillar / "db.sls").write_text("b: CANARY\n")
    states = []
    for number, text in enumerate(READS):
        path = site.there / f"own{number}"
        path.write_text("#!jinja|text\n" + text.replace("@", str(site.folder)))
        states.append(f"r{number}:\n  module.run: [{{slsutil.renderer: [{{path: {path}}}]}}]\n")
    site.write(t__sls="".join(states))
    found = site.run("state.apply", "t").ret.value
    said = {row["__id__"]: str(row["comment"]) for row in found.values()}
    for number, (text, words) in enumerate(READS.items()):
        assert words in said[f"r{number}"], text
    assert "CANARY" not in str(found)


def test_host_receives_no_secrets_of_the_master_or_other_hosts(
    site: Site,
) -> None:
    (site.pillar / "top.sls").write_text("base: {'web1': [web], 'db1': [db]}\n")
    (site.pillar / "web.sls").write_text("mine: own-SECRET\n")
    (site.pillar / "db.sls").write_text("b: CANARY-pillar\n")
    (site.states / "other").write_text("CANARY-file")
    site.write(
        t__sls=f"a:\n  cmd.run:\n    - name: \"grep -rl CANA''RY {site.bench.room} "
        f"/proc/$PPID/environ /proc/$PPID/cmdline; grep -rl own-SECR''ET {site.bench.room}\"\n"
    )
    site.settings = replace(
        site.settings, roster_defaults={"passwd": "CANARY-word"}, ssh_priv="/CANARY-key"
    )
    target = replace(site.host(), password="CANARY-word", private_key_password="CANARY-lock")
    (row,) = site.run("state.apply", "t", target=target).ret.value.values()
    # What is found is the run's own: its pillar.
    assert [Path(name).name for name in row["changes"]["stdout"].split()] == ["job"]


COUNT_AND_ASK = """
count:
  cmd.run: [{name: 'echo x >> @/count; while ! [ -e @/cut1 ]; do sleep 0.01; done'}]
asks:
  file.managed:
    - name: @/asks
    - source: salt://asks.j2
    - template: jinja
    - require: [{cmd: count}]
"""


def test_lost_connection_during_a_push_loses_nothing(site: Site) -> None:
    """Cut while a state runs, and while the run waits for a template."""
    site.write(t__sls=COUNT_AND_ASK, asks__j2="{{ salt['file.read']('@/count') }}")
    opened: list[Connection] = []
    real = connector(site.bench)

    def connect(target: SshTarget) -> Connection:
        opened.append(real(target))
        return opened[-1]

    polls = itertools.count()
    poll, supply = Program.poll, Program.supply
    cuts = iter(("supply",))

    def cutting_poll(self: Program, *args: Any, **kwargs: Any) -> Any:
        if next(polls) == 1:
            self.close()
            (site.there / "cut1").touch()
        return poll(self, *args, **kwargs)

    def cutting_supply(self: Program, *args: Any, **kwargs: Any) -> Any:
        if next(cuts, None):
            self.close()
        return supply(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "poll", cutting_poll)
        patch.setattr(Program, "supply", cutting_supply)
        found = site.run("state.apply", "t", connect=connect)
    assert rows(found) == {"count": True, "asks": True}
    assert len(opened) == 3
    assert site.made("count") == "x\n"
    assert site.made("asks") == "x\n"
    assert site.bench.debris() == []


def test_killed_master_finds_its_uncollected_run_again(site: Site) -> None:
    site.write(t__sls="t:\n  cmd.run: [{name: echo x >> @/count}]\n")
    spec = JobSpec("20261121193000000000", "state.apply", ("t",))
    kept: list[Any] = []

    def dies(ret: Any) -> None:
        raise KeyboardInterrupt

    for keep in (dies, kept.append):
        try:
            job.run(site.host(), connector(site.bench), spec, site.settings, lambda *_: None, keep)
        except KeyboardInterrupt:
            assert site.bench.debris() != []
    assert [row["result"] for row in kept[0].value.values()] == [True]
    assert site.made("count") == "x\n"
    assert site.bench.debris() == []


def test_connection_lost_during_compilation_runs_nothing(site: Site) -> None:
    site.write(
        t__sls="{% set x = salt['cmd.run']('true') %}\nt:\n  cmd.run: [{name: touch @/t}]\n"
    )
    original = Program.call

    def cut(self: Program, call: Any) -> Any:
        self.close()
        return original(self, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "call", cut)
        with pytest.raises(CatenaError, match="nothing was run"):
            site.run("state.apply", "t")
    assert not (site.there / "t").exists()


def test_compile_error_is_reported_as_on_a_minion(site: Site) -> None:
    site.write(t__sls="t:\n  file.managed: [{name: @/t}, {sorce: salt://x}, {contents: x}]\n")
    site.write(u__sls="u:\n  cmd.run: [{name: 'true'}, {require: [{cmd: none}]}]\n")
    site.write(v__sls="{{ salt['test.pingg']() }}\n")
    assert "sorce" in str(site.run("state.apply", "t").ret.value)
    found = site.run("state.apply", "u")
    assert "cmd: none" in str(found.ret.value).replace("'", "")
    assert not found.ret.success
    (text,) = site.run("state.apply", "v").ret.value
    assert "test.pingg" in text
    assert "salt://v.sls:1" in text


def test_state_that_says_test_false_changes_nothing_in_test_mode(site: Site) -> None:
    text = "a: {file.managed: [{name: '@/made'}, {contents: x}, {test: False}]}\n"
    site.write(
        t__sls=text,
        f="text\n",
        u__sls="b: {file.managed: [{name: '@/b'}, {source: 'salt://f'}]}\n",
    )
    for sls in ("t", "u"):
        (row,) = site.run("state.apply", sls, test=True).ret.value.values()
        assert row["result"] is None, row
        assert "refused" not in row["comment"]
    assert not list(site.there.iterdir())


def test_template_of_a_managed_file_calls_the_target_once(site: Site) -> None:
    said = "{{ salt['cmd.shell']('echo once >> @/said; cat @/said') }}"
    site.write(
        t__sls="a: {file.managed: [{name: '@/b'}, {source: 'salt://f'}, {template: jinja}]}\n",
        f=f"{said}\n",
    )
    (row,) = site.run("state.apply", "t").ret.value.values()
    assert row["result"], row["comment"]
    assert (site.there / "b").read_text() == "once\n"


def test_calls_of_templates_in_test_mode_are_counted_over_ssh(site: Site) -> None:
    run = "{% do salt['cmd.run']('true') %}\n"
    inner = "{mgrcompat.module_run: [{name: state.apply}, {mods: t}, {kwargs: {test: True}}]}"
    managed = "{file.managed: [{name: '@/b'}, {source: 'salt://f'}, {template: jinja}]}"
    site.write(t__sls=f"{run}a: {managed}\n", f=run, u__sls=f"b: {inner}\n")
    named = {(call.function, call.file) for call in total(
        site.run("state.apply", "u").ret.value
    ).calls}  # fmt: skip
    assert named == {("cmd.run", "salt://t.sls"), ("cmd.run", "salt://f")}
    rows = site.run("state.apply", "t", test=True).ret.value
    assert {(call.function, call.file) for call in total(rows).calls} == named
    assert not total(site.run("state.apply", "t").ret.value)


def test_functions_over_ssh_return_the_same_as_on_a_minion(site: Site) -> None:
    site.write(f="text {{ 1 + 1 }}\n")
    assert site.run("test.ping").ret.value is True
    assert site.run("cmd.retcode", "exit 3").ret.retcode == 3
    assert site.run("grains.get", "id").ret.value == "web1"
    site.run("cp.get_template", "salt://f", str(site.there / "f"))
    assert site.made("f") == "text 2\n"
    missing = site.run("test.pingg")
    assert missing.raised
    assert "Did you mean 'test.ping'?" in str(missing.ret.value)
    assert site.run("test.arg", 1, b=(2,)).ret.value == {"args": [1], "kwargs": {"b": [2]}}


def streamed(site: Site, fun: str, *args: Any, output_bytes: int) -> list[dict[str, Any]]:
    """Run a job that ends once its first output is reported; return all parts of its output."""
    parts: list[dict[str, Any]] = []

    def on_step(step: RunStep) -> None:
        if step.kind == "output":
            parts.append(dict(step.data))
            (site.there / "gate").touch()

    spec = JobSpec(f"2026112119{next(NUMBERS):010d}", fun, args, deadline_seconds=60)
    seat = seat_of(site.host(), site.settings, "")
    visit = Visit(seat, connector(site.bench), lambda *_: None)
    try:
        visit.begin()
        done = job.carry_out(seat, visit, spec, lambda *_: None, on_step, output_bytes)
        assert done.ret.success, done.ret.value
        visit.forget()
    finally:
        visit.close()
    return parts


#: Prints the second line only when the first one was seen.
GATED = "echo one; until [ -e @/gate ]; do sleep 0.05; done; echo two"


@pytest.mark.parametrize("fun", ["cmd.run", "state.apply"])
def test_output_of_a_running_command_is_reported_while_it_runs(site: Site, fun: str) -> None:
    site.write(t__sls=f"t:\n  cmd.run: [{{name: '{GATED}'}}]\n")
    words = "t" if fun == "state.apply" else GATED.replace("@", str(site.there))
    parts = streamed(site, fun, words, output_bytes=1024)
    assert parts == [
        {"attempt": 0, "at": 0, "size": 4, "stream": "stdout", "text": "one\n"},
        {"attempt": 0, "at": 4, "size": 4, "stream": "stdout", "text": "two\n"},
    ]


def test_output_of_a_running_command_is_limited(site: Site) -> None:
    command = GATED.replace("@", str(site.there))
    assert [part["text"] for part in streamed(site, "cmd.run", command, output_bytes=1)] == [
        "one\n"
    ]
    command = "echo one; sleep 1.2; echo two"
    assert streamed(site, "cmd.run", command, output_bytes=0) == []

"""Functions and states answer over SSH as they do by `catena call --local` on the same host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.salt_cases import Answer, Case, Stage
from tests.support.ssh_cases import PushedStage

STATES = {
    "top.sls": "base: {'*': [a]}\n",
    "a.sls": "x: {test.nop: []}\n",
    "calls.sls": "{% set said = salt['cmd.run']('echo it') %}\nc: test.nop\n",
    "f.txt": "file {{ grains.id }}\n",
    "d/g.txt": "g",
    "map.jinja": "{% set x = {'a': [1, 2]} %}",
    "_modules/mine.py": "def say(*a, **k):\n    __context__['retcode'] = len(a)\n"
    "    return [a, sorted(i for i in k if i[:2] != '__'), __grains__['role'], "
    "__pillar__['a']['b']]\n",
}
PILLAR = {"top.sls": "base: {'*': [p]}\n", "p.sls": "a: {b: 1, 80: x}\nl: [1, 2]\n"}

#: One call a line: the function, then words as on a command line.
CALLS = """
cmd.retcode false
cmd.run 'exit 3'
cmd.run_stdout 'printf "%s|" a é'
config.get mysetting:x
config.option mysetting
cp.get_file salt://f.txt @SANDBOX@/f
cp.get_file_str salt://f.txt
cp.get_template salt://f.txt @SANDBOX@/t
cp.hash_file salt://f.txt
cp.list_master
cp.list_states
data.update k v
data.get k
defaults.merge '{a: 1}' '{b: 2}'
environ.get HOME
file.find /etc name=hostname
file.read @SANDBOX@/none
file.stats /etc
grains.get role
grains.setval newg '[1, x]'
grains.get newg
grains.delval newg
group.info root
hashutil.sha256_digest x
jinja.load_map map.jinja x
key.finger
match.compound 'G@role:web and oracle*'
match.pillar a:b:1
mine.say 1 2 b=c
mine.get '*' x
network.get_hostname
pillar.get a:80
pillar.item l
pillar.items
pkg.version bash
saltutil.find_job 1
saltutil.is_running x
saltutil.running
schedule.list
service.available nonesuch
slsutil.renderer salt://f.txt default_renderer=jinja|text
state.apply nosuch
state.apply calls test=True
state.highstate
state.low '{state: test, fun: nop, name: z}'
state.show_highstate
state.show_lowstate
state.show_sls a
state.show_top
state.single test.fail_without_changes x
state.single test.configurable_test_state x changes=True result=False comment=é
state.sls_id x a
state.template_str '{y: {test.nop: []}}'
sys.argspec test.ping
sys.doc test.ping
sys.list_modules
test.arg 1 '[a, {b: null}]' c=1.5 d=2020-01-01
test.exception
test.nosuch
test.ping 1
user.info root
"""
#: Those that are always tried; the others with `-m slow`.
USUAL = frozenset(
    """cp.get_template jinja.load_map mine.say pillar.items slsutil.renderer state.show_lowstate
    state.single test.arg test.exception test.nosuch""".split()
)
_WORDS = re.compile(r"'([^']*)'|(\S+)")
_OF_A_RUN = re.compile(r'"(start_time|duration|pid|last_run|atime|started)": ("[^"]*"|[\d.]+)')


def steps() -> Iterator[Any]:
    for line in CALLS.strip().splitlines():
        words = [quoted or plain for quoted, plain in _WORDS.findall(line)]
        marks = () if words[0] in USUAL else pytest.mark.slow
        yield pytest.param({"function": words[0], "args": words[1:]}, marks=marks, id=words[0])


@pytest.fixture(scope="module")
def stages() -> Iterator[tuple[Stage, PushedStage]]:
    files = {f"states/{path}": text.encode() for path, text in STATES.items()}
    files |= {f"pillar/{path}": text.encode() for path, text in PILLAR.items()}
    files |= {"config.yaml": b"mysetting: {x: 1}\n", "grains.yaml": b"role: web\n"}
    case = Case("same/answers", files, {"steps": []}, {})
    both = Stage(case), PushedStage(case)
    both[0].call({"function": "saltutil.sync_all"})
    yield both
    for stage in both:
        stage.close()


def comparable(answer: Answer) -> str:
    """Return an answer as text, without what is another in every run and every room."""
    text = json.dumps(answer, sort_keys=True, ensure_ascii=False)
    text = re.sub(r"@WORK@/\S*?/pki(/minion)?/", "@PKI@/", text)
    return _OF_A_RUN.sub(r'"\1": -', text)


@pytest.mark.parametrize("step", list(steps()))
def test_call_gives_the_same_result_over_ssh_as_locally(
    stages: tuple[Stage, PushedStage], step: Mapping[str, Any]
) -> None:
    local, pushed = (stage.call(step) for stage in stages)
    assert comparable(pushed) == comparable(local)

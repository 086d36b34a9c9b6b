from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.plugins import Plugin, StateMark
from catena.core.types import StateResult
from catena.runtime.executor import FinishedJob
from catena.runtime.grains.custom import custom_grains
from catena.runtime.host import AgentHome
from catena.runtime.loader import CustomRegistry, MalformedStateError
from catena.runtime.session import JobSession

Run = Callable[..., FinishedJob]


@pytest.fixture
def module(roots: Path, run: Run) -> Callable[[str, str], None]:
    def add(path: str, text: str) -> None:
        target = roots / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        kind = target.parent.name[1:]
        assert run(f"saltutil.sync_{kind}").ret.value == [f"{kind}.{target.stem}"]

    return add


def test_custom_module_sees_what_salt_gives_it(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/orc.py",
        "def whoami():\n"
        "    return {'id': __grains__['id'], 'pillar': __pillar__.get('k'),\n"
        "            'opt': __opts__['id'], 'cross': __salt__['test.echo']('x'),\n"
        "            'own': __salt__['orc.add'](1, b=2), 'there': 'test.ping' in __salt__}\n"
        "def add(a, b=1):\n"
        "    '''Add two numbers.'''\n"
        "    return a + b\n"
        "def _hidden():\n"
        "    return 1\n",
    )
    assert run("orc.whoami").ret.value == {
        "id": "web1", "pillar": "pv", "opt": "web1", "cross": "x", "own": 3, "there": True,
    }  # fmt: skip
    assert run("orc.add", 2, b=5).ret.value == 7
    assert "unknown argument 'c'" in run("orc.add", 2, c=5).ret.value
    assert not run("orc._hidden").ret.success


def test_custom_module_wins_over_a_built_in(module: Callable[[str, str], None], run: Run) -> None:
    module("_modules/test.py", "def ping():\n    return 'custom'\n")
    assert run("test.ping").ret.value == "custom"


def test_aliases_give_names_that_python_forbids(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/orcalias.py",
        "__func_alias__ = {'list_': 'list'}\n__outputter__ = {'list': 'txt'}\n"
        "def list_(n=2):\n    return list(range(n))\n",
    )
    ret = run("orcalias.list", 3).ret
    assert (ret.value, ret.out) == ([0, 1, 2], "txt")
    assert not run("orcalias.list_").ret.success


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__virtualname__ = 'other'\ndef __virtual__():\n    return __virtualname__\n", "other"),
        ("def __virtual__():\n    return 'said'\n", "said"),
        ("__virtualname__ = 'both'\ndef __virtual__():\n    return True\n", "both"),
    ],
)
def test_module_has_the_name_that_it_gives_itself(
    module: Callable[[str, str], None], run: Run, text: str, name: str
) -> None:
    module("_modules/filename.py", text + "def fun():\n    return 'works'\n")
    assert run(f"{name}.fun").ret.value == "works"
    assert not run("filename.fun").ret.success


def test_module_that_refuses_to_load_gives_its_reason(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/orc_b.py",
        "def __virtual__():\n    return False, 'not today'\ndef fun():\n    return 1\n",
    )
    assert "'orc_b' __virtual__ returned False: not today" in run("orc_b.fun").ret.value


def test_broken_module_says_why_and_harms_no_other(
    module: Callable[[str, str], None], run: Run
) -> None:
    module("_modules/broken.py", "import no_such_thing\ndef fun():\n    return 1\n")
    assert "no_such_thing" in run("broken.fun").ret.value
    assert run("test.ping").ret.success


def test_salts_names_can_be_imported_while_a_module_loads_or_runs_and_never_else(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/usessalt.py",
        "import salt.utils.path\n"
        "from salt.exceptions import CommandExecutionError\n"
        "def where(name):\n"
        "    import salt.utils.stringutils\n"
        "    found = salt.utils.path.which(name)\n"
        "    if not found:\n"
        "        raise CommandExecutionError('no ' + name)\n"
        "    return salt.utils.stringutils.to_str(b'ok')\n",
    )
    assert run("usessalt.where", "sh").ret.value == "ok"
    assert run("usessalt.where", "no-such-program").ret.value == "ERROR: no no-such-program"
    assert [name for name in sys.modules if name.partition(".")[0] == "salt"] == []
    assert [name for name in sys.modules if name.startswith("catena_custom")] == []


def test_custom_state_returns_what_states_return(
    module: Callable[[str, str], None], session: JobSession
) -> None:
    module(
        "_states/orcstate.py",
        "def made(name, text='default'):\n"
        "    ret = {'name': name, 'changes': {}, 'result': True, 'comment': ['a', 'b']}\n"
        "    if __opts__['test']:\n"
        "        ret['result'] = None\n"
        "    ret['changes'] = {'new': __salt__['test.echo'](text)}\n"
        "    return ret\n"
        "def bad(name):\n"
        "    return None\n",
    )
    context = session.context
    made = context.states["orcstate.made"]
    assert list(made.signature().parameters) == ["name", "text"]
    assert made.call(context, "x", text="t") == StateResult(True, {"new": "t"}, "a\nb")
    assert made.call(context.with_(test=True), "x").result is None
    with pytest.raises(MalformedStateError):
        context.states["orcstate.bad"].call(context, "x")


def test_removed_module_is_gone_after_the_next_sync(
    module: Callable[[str, str], None], run: Run, roots: Path
) -> None:
    module("_modules/orc.py", "def fun():\n    return 1\n")
    assert run("orc.fun").ret.value == 1
    (roots / "_modules/orc.py").unlink()
    assert run("saltutil.sync_modules").ret.value == []
    assert not run("orc.fun").ret.success


def test_changed_module_is_loaded_anew(module: Callable[[str, str], None], run: Run) -> None:
    module("_modules/orc.py", "def fun():\n    return 1\n")
    assert run("orc.fun").ret.value == 1
    module("_modules/orc.py", "def fun():\n    return 'two'\n")
    assert run("orc.fun").ret.value == "two"


def test_functions_are_attributes_of_their_modules_too(
    module: Callable[[str, str], None], run: Run
) -> None:
    module("_utils/orcu.py", "def twice(x):\n    return x * 2\n")
    module(
        "_modules/orcattr.py",
        "def f():\n"
        "    return [__salt__.test.echo('a'), __utils__.orcu.twice(2), __salt__.get('no.such')]\n"
        "def g():\n"
        "    return __salt__.nosuch.f()\n",
    )
    assert run("orcattr.f").ret.value == ["a", 4, None]
    assert "AttributeError" in run("orcattr.g").ret.value


def test_module_with_virtual_aliases_and_init_is_loaded(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/orcmany.py",
        "__virtual_aliases__ = ('orcx', 'orcy')\n__virtualname__ = 'not_looked_at'\nSEEN = []\n"
        "def __init__(opts):\n    SEEN.append(opts['id'])\n"
        "def f():\n    return SEEN\n",
    )
    names = ("orcmany", "orcx", "orcy")
    assert [run(f"{name}.f").ret.value for name in names] == [["web1"]] * 3
    assert not run("not_looked_at.f").ret.success


def test_custom_module_with_the_virtual_name_of_a_built_in_extends_it(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_modules/orcmore.py",
        "__virtualname__ = 'test'\n"
        "def __virtual__():\n    return __virtualname__\n"
        "def more():\n    return 1\n",
    )
    assert (run("test.more").ret.value, run("test.ping").ret.value) == (1, True)
    module("_modules/test.py", "def ping():\n    return 'custom'\n")
    assert run("test.ping").ret.value == "custom"
    assert not run("test.echo", "x").ret.success


def test_folder_is_a_module(roots: Path, run: Run) -> None:
    folder = roots / "_modules" / "orcpack"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .inner import N\ndef f():\n    return N\n")
    (folder / "inner.py").write_text("N = 5\n")
    synced = run("saltutil.sync_modules").ret.value
    assert synced == ["modules.orcpack.__init__", "modules.orcpack.inner"]
    assert run("orcpack.f").ret.value == 5
    assert not [name for name in sys.modules if "orcpack" in name]


def test_custom_state_sees_its_low_chunk_and_other_states(
    module: Callable[[str, str], None], run: Run, roots: Path
) -> None:
    module(
        "_states/orclow.py",
        "def mod_init(low):\n"
        "    __context__.setdefault('begun', []).append(low['__id__'])\n"
        "def f(name):\n"
        "    inner = __states__['test.succeed_with_changes'](name='x')\n"
        "    seen = [__low__['fun'], __env__, __context__['begun'], inner['name']]\n"
        "    return {**inner, 'comment': repr(seen)}\n",
    )
    (roots / "s.sls").write_text("a: orclow.f\nb: orclow.f\n")
    rows = run("state.apply", "s").ret.value.values()
    assert [row["comment"] for row in rows] == ["['f', 'base', ['a'], 'x']"] * 2
    assert all(row["changes"] and row["result"] for row in rows)


def test_state_module_that_ends_the_process_as_it_begins_fails_its_state(
    module: Callable[[str, str], None], run: Run, roots: Path
) -> None:
    module(
        "_states/orcquit.py",
        "import sys\ndef mod_init(low):\n    sys.exit(3)\ndef f(name):\n    return {}\n",
    )
    (roots / "s.sls").write_text("a: orcquit.f\n")
    (row,) = run("state.apply", "s").ret.value.values()
    assert row["result"] is False
    assert "ended the process with status 3" in row["comment"]


def test_custom_state_module_joins_its_states(
    module: Callable[[str, str], None], run: Run, roots: Path
) -> None:
    module(
        "_states/orcjoin.py",
        "def f(name, names_joined=()):\n"
        "    comment = ' '.join(names_joined)\n"
        "    return {'name': name, 'changes': {}, 'result': True, 'comment': comment}\n"
        "def mod_aggregate(low, chunks, running):\n"
        "    low['names_joined'] = [one['name'] for one in chunks if not one.get('__agg__')]\n"
        "    for one in chunks:\n"
        "        one['__agg__'] = bool(__opts__['id'])\n"
        "    return low\n",
    )
    (roots / "s.sls").write_text(
        "a: {orcjoin.f: [aggregate: true]}\nb: {orcjoin.f: [aggregate: true]}\n"
    )
    rows = run("state.apply", "s").ret.value.values()
    assert [row["comment"] for row in rows] == ["b", ""]


def test_custom_grains_see_the_options(module: Callable[[str, str], None], run: Run) -> None:
    module(
        "_grains/orcgrain.py",
        "def f(grains):\n    return {'orc': [__opts__['id'], 'cachedir' in __opts__]}\n",
    )
    assert run("grains.get", "orc").ret.value == ["web1", True]


def test_sync_applies_extmod_whitelist_and_blacklist(roots: Path, run: Run) -> None:
    (roots / "_modules").mkdir()
    for name in ("orca", "orcb"):
        (roots / "_modules" / f"{name}.py").write_text("def f():\n    return 1\n")
    sync = "saltutil.sync_modules"
    assert run(sync, extmod_whitelist="orca").ret.value == ["modules.orca"]
    assert run(sync, extmod_blacklist=["orca"]).ret.value == ["modules.orcb"]
    assert run("saltutil.sync_all").ret.value["modules"] == ["modules.orca"]
    none = run("saltutil.sync_all", extmod_whitelist={"modules": ["x"]}).ret.value
    assert none["modules"] == [] and {"tops", "pillar", "wrapper", "proxymodules"} <= none.keys()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "salt.utils.versions.LooseVersion('1.10') > salt.utils.versions.LooseVersion('1.9')",
            True,
        ),
        ("salt.utils.versions.compare('1.10', '<=', '1.9')", False),
        ("salt.utils.versions.version_cmp('2.0', '2.0')", 0),
        ("salt.utils.functools.alias_function(f, 'g', 'doc').__name__", "g"),
        ("salt.utils.odict.OrderedDict([('a', 1)])", {"a": 1}),
        ("salt.utils.network.in_subnet('10.0.0.0/8', ['10.1.1.1'])", True),
        ("salt.utils.validate.net.ipv4_addr('10.0.0.256')", False),
        (
            "salt.utils.dictdiffer.deep_diff({'a': 1}, {'a': 2})",
            {"old": {"a": 1}, "new": {"a": 2}},
        ),
        ("salt.utils.data.repack_dictlist([{'a': 1}, 'b'])", {"a": 1, "b": None}),
        ("salt.utils.hashutils.md5_digest('x')", "9dd4e461268c8034f5c8564e155c67a6"),
        ("salt.serializers.yaml.deserialize('a: 1')", {"a": 1}),
        ("salt.defaults.exitcodes.EX_USAGE", 64),
        ("salt.utils.url.create('a/b', 'dev')", "salt://a/b?saltenv=dev"),
        (
            "salt.utils.dictupdate.update({'a': {'b': 1}}, {'a': {'c': 2}})",
            {"a": {"b": 1, "c": 2}},
        ),
    ],
)
def test_salt_api_names_work_as_named(
    module: Callable[[str, str], None], run: Run, expression: str, expected: object
) -> None:
    name = expression.partition("(")[0].rpartition(".")[0]
    module("_modules/orcname.py", f"import {name}\ndef f():\n    return {expression}\n")
    assert run("orcname.f").ret.value == expected


def test_custom_files_act_in_test_mode_below_a_built_in_state(
    module: Callable[[str, str], None], run: Run, tmp_path: Path
) -> None:
    # A tree whose own `service` module asks a program, as it is loaded and as it is called.
    module(
        "_modules/service.py",
        "import subprocess\n"
        "def __virtual__():\n"
        "    return subprocess.call(['true']) == 0\n"
        "def available(name):\n"
        "    return subprocess.call(['true']) == 0\n"
        "def status(name):\n"
        "    return False\n",
    )
    (row,) = run("state.single", "service.running", "own", test=True).ret.value.values()
    assert (row["result"], row["comment"]) == (None, "Service own is set to start")


def test_built_in_state_called_by_a_custom_one_is_guarded_in_test_mode(
    module: Callable[[str, str], None], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    module(
        "_states/own.py",
        "def act(name):\n    return __states__['file.careless'](name)\n",
    )
    careless = Plugin("file.careless", _careless, StateMark("careless"))
    module_of = CustomRegistry.module

    def with_careless(self: CustomRegistry, prefix: str) -> Mapping[str, Plugin]:
        found = module_of(self, prefix)
        return {**found, careless.name: careless} if prefix == "file" else found

    monkeypatch.setattr(CustomRegistry, "module", with_careless)
    (row,) = run("state.single", "own.act", str(made), test=True).ret.value.values()
    assert f"test mode refused to write {made}" in row["comment"]
    assert not made.exists()


def _careless(context: Context, name: str) -> StateResult:
    Path(name).write_text("x")
    return StateResult(True)


@pytest.mark.parametrize(
    ("written", "result"),
    [("'yes'", True), ("'no'", True), ("'False'", True), ("''", False), ("0", False), ("1", True),
     ("2", True), ("1.5", True), ("[]", False), ("[1]", True), ("None", None)],
)  # fmt: skip
def test_result_of_a_custom_state_counts_as_in_salt(
    module: Callable[[str, str], None], run: Run, written: str, result: Any
) -> None:
    body = f"{{'name': name, 'changes': {{}}, 'result': {written}, 'comment': ''}}"
    module("_states/own.py", f"def res(name):\n    return {body}\n")
    (row,) = run("state.single", "own.res", "x").ret.value.values()
    assert row["result"] is result


def test_argument_that_a_custom_state_reads_is_no_typo(
    module: Callable[[str, str], None], run: Run
) -> None:
    module(
        "_states/own.py",
        "def done(name, **kwargs):\n"
        "    told = _of(kwargs)\n"
        "    return {'name': name, 'changes': {}, 'result': True, 'comment': told}\n"
        "def _of(given):\n"
        "    return given.get('tests', '') + str('oder' in given)\n",
    )
    read = run("state.single", "own.done", "x", tests="a", oder=1).ret.value
    (row,) = read.values()
    assert (row["comment"], row.get("warnings")) == ("aTrue", None)
    (row,) = run("state.single", "own.done", "x", tsets="a", unles="false").ret.value.values()
    assert [text.split("'")[1] for text in row["warnings"]] == ["unles"]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (
            "{'name': name, 'changes': {}, 'comment': ''}",
            "were not present in the state return: result.",
        ),
        (
            "{'changes': {}, 'result': True}",
            "were not present in the state return: name, comment.",
        ),
        ("{'name': name, 'result': True, 'comment': ''}", "the state return: changes."),
        (
            "{'name': name, 'changes': [], 'result': True, 'comment': ''}",
            "'Changes' should be a dictionary, not list.",
        ),
        ("[]", "Malformed state return. Data must be a dictionary type, not list."),
    ],
)
def test_malformed_return_of_a_custom_state_fails_as_in_salt(
    module: Callable[[str, str], None], run: Run, returned: str, told: str
) -> None:
    module("_states/own.py", f"def res(name):\n    return {returned}\n")
    (row,) = run("state.single", "own.res", "x").ret.value.values()
    assert row["result"] is False
    assert f"{told} (res, salt://_states/own.py:1)" in row["comment"]


@pytest.mark.parametrize(
    ("put", "what"), [(os.mkfifo, "a pipe"), (os.mkdir, "a folder"), (Path.touch, "")]
)
def test_custom_file_that_is_no_regular_file_is_refused_and_synced_again(
    put: Callable[[Path], None],
    what: str,
    module: Callable[[str, str], None],
    run: Run,
    place: AgentHome,
) -> None:
    module("_modules/orc.py", "def answer():\n    return 42\n")
    path = place.extmods / "modules/orc.py"
    path.unlink()
    put(path)
    run("saltutil.refresh_modules")
    refused = run("orc.answer").ret
    assert not refused.success and "Traceback" not in refused.value
    if what:
        assert f"{path}: {what} is in the place of the file" in refused.value
    assert run("test.ping").ret.value is True
    assert run("saltutil.sync_modules").ret.value == ["modules.orc"]
    assert run("orc.answer").ret.value == 42


def test_pipe_among_custom_files_is_removed_by_a_sync(
    module: Callable[[str, str], None], run: Run, place: AgentHome
) -> None:
    module("_modules/orc.py", "def answer():\n    return 42\n")
    os.mkfifo(place.extmods / "modules/other.py")
    assert run("orc.answer").ret.value == 42
    assert "test.ping" in run("sys.list_functions").ret.value
    run("saltutil.sync_modules")
    assert not (place.extmods / "modules/other.py").exists()


def test_pipe_among_custom_grains_does_not_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "a.py")
    (tmp_path / "b.py").write_text("def two():\n    return {'two': 2}\n")
    assert custom_grains(tmp_path, {}) == {"two": 2}
    assert "a pipe is in the place of the file" in caplog.text

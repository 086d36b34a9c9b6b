from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from catena.core.types import StateResult
from catena.runtime.executor import Outcome
from catena.runtime.loader import MalformedStateError
from catena.runtime.session import Session

Run = Callable[..., Outcome]


@pytest.fixture
def module(roots: Path, run: Run) -> Callable[[str, str], None]:
    def add(path: str, text: str) -> None:
        target = roots / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        kind = target.parent.name[1:]
        assert run(f"saltutil.sync_{kind}").ret.value == [f"{kind}.{target.stem}"]

    return add


def test_a_custom_module_sees_what_salt_gives_it(
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


def test_a_custom_module_wins_over_a_built_in(
    module: Callable[[str, str], None], run: Run
) -> None:
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
def test_a_module_has_the_name_that_it_gives_itself(
    module: Callable[[str, str], None], run: Run, text: str, name: str
) -> None:
    module("_modules/filename.py", text + "def fun():\n    return 'works'\n")
    assert run(f"{name}.fun").ret.value == "works"
    assert not run("filename.fun").ret.success


def test_a_module_that_refuses_says_why(module: Callable[[str, str], None], run: Run) -> None:
    module(
        "_modules/orc_b.py",
        "def __virtual__():\n    return False, 'not today'\ndef fun():\n    return 1\n",
    )
    assert "'orc_b' __virtual__ returned False: not today" in run("orc_b.fun").ret.value


def test_a_broken_module_says_why_and_harms_no_other(
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


def test_a_custom_state_returns_what_states_return(
    module: Callable[[str, str], None], session: Session
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


def test_a_module_that_goes_away_is_gone_after_the_next_sync(
    module: Callable[[str, str], None], run: Run, roots: Path
) -> None:
    module("_modules/orc.py", "def fun():\n    return 1\n")
    assert run("orc.fun").ret.value == 1
    (roots / "_modules/orc.py").unlink()
    assert run("saltutil.sync_modules").ret.value == []
    assert not run("orc.fun").ret.success


def test_a_changed_module_is_loaded_anew(module: Callable[[str, str], None], run: Run) -> None:
    module("_modules/orc.py", "def fun():\n    return 1\n")
    assert run("orc.fun").ret.value == 1
    module("_modules/orc.py", "def fun():\n    return 'two'\n")
    assert run("orc.fun").ret.value == "two"

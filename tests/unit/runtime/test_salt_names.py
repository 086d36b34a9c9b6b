"""What custom files find below `import salt`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.runtime.executor import FinishedJob
from catena.runtime.grains.custom import custom_grains
from catena.runtime.salt.names import INDEX, module, salt_names

Run = Callable[..., FinishedJob]
Call = Callable[..., Any]


@pytest.fixture
def value(roots: Path, run: Run) -> Call:
    """Return a function that returns the value of an expression in a custom module."""

    def of(text: str, imports: str = "") -> Any:
        (roots / "_modules").mkdir(exist_ok=True)
        body = f"{imports or _import(text)}\ndef f():\n    return {text}\n"
        (roots / "_modules" / "asks.py").write_text(body)
        run("saltutil.sync_modules")
        return run("asks.f").ret.value

    return of


def _import(text: str) -> str:
    return f"import {text.partition('(')[0].rpartition('.')[0]}"


@pytest.mark.parametrize(
    ("text", "imports", "expected"),
    [
        ("run_all('echo x')['stdout']", "from salt.modules.cmdmod import run_all", "x"),
        ("salt.modules.test.echo('x')", "import salt.modules.test", "x"),
        ("salt.modules.cmdmod._run_quiet('echo x')", "import salt.modules.cmdmod", "x"),
        ("salt.client.Caller().cmd('test.echo', 'x')", "import salt.client", "x"),
        (
            "salt.client.Caller(mopts=__opts__).function('test.arg', 1, b=2)",
            "import salt.client",
            {"args": [1], "kwargs": {"b": 2}},
        ),
        ("salt.client.LocalClient().cmd('web1', 'test.echo', ['x'])", "import salt.client",
         {"web1": "x"}),
        ("salt.config.minion_config('/etc/salt/minion')['id']", "import salt.config", "web1"),
        ("salt.config.DEFAULT_MINION_OPTS['default_include']", "import salt.config",
         "minion.d/*.conf"),
        ("salt.loader.minion_mods(__opts__)['test.echo']('x')", "import salt.loader", "x"),
        ("salt.loader.grains(__opts__)['os']", "import salt.loader", "Debian"),
        ("salt.loader.states(__opts__, {}, {})['test.nop']('x')['result']", "import salt.loader",
         True),
        ("salt.states.test.nop('x')['result']", "import salt.states.test", True),
        ("salt.minion.SMinion(__opts__).functions['test.echo']('x')", "import salt.minion", "x"),
        ("salt.grains.core.os_data()['os']", "import salt.grains.core", "Debian"),
        ("salt.grains.core.id_()", "import salt.grains.core", {"id": "web1"}),
        ("salt.syspaths.BASE_FILE_ROOTS_DIR", "import salt.syspaths", "/srv/salt"),
        ("salt.utils.event.tagify(['1', 'new'], 'job')", "import salt.utils.event",
         "salt/job/1/new"),
        (
            "salt.utils.event.get_event('minion', opts=__opts__).fire_event({'a': 1}, 't')",
            "import salt.utils.event",
            False,  # this session has no master
        ),
        ("salt.fileclient.get_file_client(__opts__).file_list()", "import salt.fileclient",
         ["_modules/asks.py"]),
        ("salt.template.compile_template_str('a: {{ 1 + 1 }}', {}, 'jinja|yaml', '', '')",
         "import salt.template", {"a": 2}),
        ("salt.utils.templates.render_jinja_tmpl('{{ x }}', {'x': 3})",
         "import salt.utils.templates", "3"),
        ("salt.returners.get_returner_options('pg', {}, {'host': 'host'}, {'host': 'h'})",
         "import salt.returners", {"host": "h"}),
    ],
)  # fmt: skip
def test_salts_own_modules_call_our_functions(
    value: Call, text: str, imports: str, expected: object
) -> None:
    assert value(text, imports) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("salt.utils.which('sh') is not None", True),
        ("salt.utils.which_bin(['no-such-program', 'sh']) is not None", True),
        ("salt.utils.fopen is open", True),
        ("salt.utils.is_linux()", True),
        ("salt.utils.is_true('yes')", True),
        ("salt.utils.compare_versions('1.10', '>', '1.9')", True),
        ("salt.utils.str_to_num('12')", 12),
        ("salt.utils.ip_bracket('::1')", "[::1]"),
        ("salt.utils.exactly_one([0, 1])", True),
        ("salt.utils.test_mode(test=True)", True),
        ("salt.ext.six.text_type('x')", "x"),
        ("list(salt.ext.six.iteritems({'a': 1}))", [["a", 1]]),
        ("isinstance('x', salt.ext.six.string_types)", True),
        ("(salt.ext.six.PY2, salt.ext.six.PY3)", [False, True]),
        ("list(salt.ext.six.moves.range(2))", [0, 1]),
        ("salt.ext.six.moves.urllib.parse.quote('a b')", "a%20b"),
        (
            "salt.utils.dictupdate.update({'a': [1]}, {'a': [1, 2]}, merge_lists=True)",
            {"a": [1, 2]},
        ),
        (
            "salt.utils.dictupdate.update({'a': {'b': 1}}, {'a': {}}, recursive_update=False)",
            {"a": {}},
        ),
        (
            "salt.utils.dictupdate.merge({'a': [1]}, {'a': [2]}, strategy='recurse', "
            "renderer='yaml', merge_lists=True)",
            {"a": [1, 2]},
        ),
        ("salt.utils.dictupdate.merge({'a': 1}, {'a': 2}, 'list')", {"a": [1, 2]}),
        ("salt.utils.dictupdate.set_dict_key_value({}, 'a:b', 1)", {"a": {"b": 1}}),
        ("salt.utils.dictupdate.append_dict_key_value({}, 'a:b', 1)", {"a": {"b": [1]}}),
        ("salt.utils.jid.is_jid(salt.utils.jid.gen_jid(__opts__))", True),
        ("salt.utils.jid.jid_to_time('20260102030405000006')", "2026, Jan 02 03:04:05.000006"),
        ("salt.utils.minions.parse_target('G@os:Debian')['engine']", "G"),
        ("salt.utils.pkg.split_comparison('>=1.2')", [">=", "1.2"]),
        ("salt.utils.jinja.ensure_sequence_filter('x')", ["x"]),
    ],
)
def test_utilities_of_older_and_newer_releases_work(
    value: Call, text: str, expected: object
) -> None:
    every = "\n".join(f"import {name}" for name in INDEX)
    found = value(text, every)
    assert (found if isinstance(found, (str, int, dict)) else [*found]) == expected


@pytest.mark.parametrize("name", sorted(INDEX))
def test_each_stand_in_can_be_made_and_imported(name: str) -> None:
    with salt_names():
        assert module(name).__name__ == name
        __import__(name)
        assert sys.modules[name] is module(name)
    assert name not in sys.modules


@pytest.mark.parametrize(
    ("imports", "missing"),
    [
        ("import salt.cloud", "salt.cloud"),
        ("import salt.utils.vt", "salt.utils.vt"),
        ("import salt.modules.no_such", "salt.modules.no_such"),
        ("import salt.utils\nsalt.utils.no_such()", "salt.utils.no_such"),
        ("import salt.modules.test\nsalt.modules.test.no_such()", "salt.modules.test.no_such"),
    ],
)
def test_missing_name_of_salt_is_named(value: Call, imports: str, missing: str) -> None:
    assert f"catena has no {missing} for custom files" in value("1", imports)


def test_custom_file_can_try_a_name_that_is_missing(value: Call) -> None:
    imports = "try:\n    import salt.cloud\n    HAS = True\nexcept ImportError:\n    HAS = False"
    assert value("HAS", imports) is False


@pytest.mark.parametrize(
    "text",
    [
        "salt.config.master_config('/etc/salt/master')",
        "salt.utils.event.get_event('master')",
        "salt.utils.minions.CkMinions(__opts__)",
    ],
)
def test_names_of_the_master_are_refused_on_a_minion(value: Call, text: str) -> None:
    said = value(text, "import salt.config, salt.utils.event, salt.utils.minions")
    assert said.startswith("ERROR: salt.")


def test_function_taken_at_import_belongs_to_the_later_call(value: Call) -> None:
    # As in Uyuni's udevdb: the module keeps the function in a dict of its own.
    imports = "import salt.modules.config\nKEPT = {'get': salt.modules.config.get}\n"
    assert value("KEPT['get']('id')", imports) == "web1"


def test_custom_grains_may_run_commands_by_salts_module(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(
        "import salt.modules.cmdmod\nimport salt.utils\n"
        "__salt__ = {'cmd.run_all': salt.modules.cmdmod.run_all}\n"
        "def own():\n"
        "    shell = salt.utils.which_bin(['sh'])\n"
        "    ran = __salt__['cmd.run_all'](shell + ' -c \"echo x\"', output_loglevel='quiet')\n"
        "    return {'own': ran['stdout']}\n"
    )
    assert custom_grains(tmp_path, {"id": "web1"}) == {"own": "x"}


def test_custom_grains_cannot_use_what_needs_a_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "files.py").write_text(
        "import salt.modules.event\n"
        "def own():\n    return {'own': salt.modules.event.send('tag')}\n"
    )
    assert custom_grains(tmp_path, {"id": "web1"}) == {}
    assert "not available while grains are collected" in caplog.text


def test_jinja_decorators_keep_the_function(value: Call) -> None:
    imports = (
        "from salt.utils.decorators.jinja import jinja_filter\n"
        "@jinja_filter('twice')\n"
        "def _twice(x):\n"
        "    return 2 * x\n"
        "@jinja_filter\n"
        "def _once(x):\n"
        "    return x\n"
    )
    assert value("[_twice(2), _once(2)]", imports) == [4, 2]

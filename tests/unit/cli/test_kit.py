"""`catena test`: expectations, messages with file and line, exit codes, and the guard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from catena.cli import commands

Tree = Callable[..., Path]

SLS = {
    "web/init.sls": (
        "conf:\n  file.managed:\n    - name: /etc/{{ grains.get('os', 'none') }}.conf\n"
        "    - mode: '0644'\n    - contents: {{ salt['pillar.get']('web:text', 'x') }}\n"
        "web:\n  service.running:\n    - enable: true\n    - watch:\n      - file: conf\n"
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a function that writes a tree and one test file; it returns the folder."""

    def make(tests: str, files: dict[str, str] = SLS) -> Path:
        folder = tmp_path / "tree"
        for path, text in {**files, "tests/a_test.yaml": tests}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return make


@pytest.fixture
def kit(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `catena test`; it returns the exit code and the output."""

    def run(*arguments: Any) -> tuple[int, str]:
        capsys.readouterr()
        code = commands.run(["test", *map(str, arguments)])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


PASSING = """
tests:
- name: all of it
  system: debian-12
  pillar: {web: {text: hello}}
  sls: web
  states:
  - id: conf
    function: file.managed
    arguments: {name: /etc/Debian.conf, mode: '0644', contents: hello}
  - id: web
    function: service
    arguments: {enable: true, watch: [{file: conf}]}
  - {id: gone, absent: true}
  only: true
  in_order: true
  count: 2
"""


def test_met_expectations_pass(tree: Tree, kit: Any) -> None:
    code, shown = kit(tree(PASSING))
    assert code == 0
    assert shown.splitlines()[1:] == ["  ok    all of it", "1 test, 0 failed"]


@pytest.mark.parametrize(
    ("states", "line", "words"),
    [
        ("- id: cnof", 5, "no state 'cnof'; did you mean 'conf'?"),
        ("- id: zzz", 5, "no state 'zzz'; there are: 'conf' (file.managed), 'web' (service"),
        (
            "- id: conf\n    function: file.absent",
            5,
            "'conf' is file.managed (salt://web/init.sls:2)",
        ),
        ("- id: conf\n    arguments:\n      mode: '0600'", 7, "has mode: '0644', expected '0600'"),
        (
            "- id: conf\n    arguments:\n      mod: 1",
            7,
            "has no argument 'mod'; did you mean 'mode'?",
        ),
        ("- id: web\n    arguments:\n      enable: 1", 7, "has enable: True, expected 1"),
        ("- id: conf\n    absent: true", 5, "state 'conf' is there (file.managed, salt://web"),
        ("- id: conf\n  only: true", 6, "further states: 'web' (service.running)"),
        ("- id: web\n  - id: conf\n  in_order: true", 7, "state 'conf' runs before 'web'"),
        ("[]\n  count: 3", 5, "expected 3 states, got 2: 'conf' (file.managed), 'web'"),
        ("[]\n  error: boom", 5, "expected the error 'boom', but none happened"),
    ],
)
def test_failure_names_line_and_difference(
    tree: Tree, kit: Any, states: str, line: int, words: str
) -> None:
    text = f"tests:\n- name: it\n  sls: web\n  states:\n  {states}\n"
    if states.startswith("[]"):
        text = f"tests:\n- name: it\n  sls: web\n  states: {states}\n"
    code, shown = kit(tree(text))
    assert code == 1
    assert words in shown
    assert "a_test.yaml:" in shown
    shown_line = int(shown.split("a_test.yaml:")[1].split(":")[0])
    assert shown_line == line


def test_error_of_an_sls_file_fails_unless_it_is_expected(tree: Tree, kit: Any) -> None:
    files = {"bad.sls": "x:\n  test.nop:\n    - name: {{ pillar['no'] }}\n"}
    code, shown = kit(tree("tests:\n- sls: bad\n", files))
    assert code == 1
    assert "bad.sls:3" in shown
    code, shown = kit(tree("tests:\n- sls: bad\n  error: has no attribute 'no'\n", files))
    assert code == 0, shown
    code, shown = kit(tree("tests:\n- sls: bad\n  error: other\n", files))
    assert "expected the error 'other', got: " in shown


CUSTOM = {
    "_modules/mine.py": (
        "import os\n"
        "def add(a, b=1):\n    return a + b\n"
        "def write(path):\n    open(path, 'w').close()\n"
        "def run():\n    return __salt__['cmd.run']('true')\n"
        "def remove(path):\n    os.remove(path)\n"
    ),
    "_states/own.py": (
        "def done(name, fails=False):\n"
        "    return {'name': name, 'result': False if fails else None, 'changes': {'a': 1},\n"
        "            'comment': 'would be done' if __opts__['test'] else 'done'}\n"
        "def forgets(name):\n    open(name, 'w').close()\n"
        "    return {'name': name, 'result': True, 'changes': {}, 'comment': ''}\n"
    ),
    "_grains/colour.py": (
        "def colour(grains):\n    return {'colour': grains.get('paint', 'blue')}\n"
    ),
    "calls.sls": "x:\n  test.nop:\n    - name: {{ salt['cmd.run']('hostname') }}\n",
}


def test_custom_modules_states_and_grains(tree: Tree, kit: Any) -> None:
    code, shown = kit(
        tree(
            "tests:\n"
            "- {call: mine.add, arguments: [1, 2], value: 3}\n"
            "- {call: mine.add, arguments: {a: 1}, value: 2}\n"
            "- {call: mine.add, arguments: {c: 1}, error: c}\n"
            "- {state: own.done, arguments: {name: x}, result: null, changes: {a: 1},"
            " comment: would be}\n"
            "- {state: own.done, arguments: {name: x, fails: true}, result: false}\n"
            "- {state: own.dnoe, error: own.dnoe}\n"
            "- {grain: colour, grains: {paint: red}, value: red}\n"
            "- {sls: calls, functions: {cmd.run: web1}, states: [{id: x,"
            " arguments: {name: web1}}]}\n"
            "- {call: mine.run, functions: {cmd.run: text}, value: text}\n",
            CUSTOM,
        )
    )
    assert code == 0, shown


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("call: mine.add, arguments: [1, 2], value: 4", "got 3, expected 4"),
        ("call: mine.add, arguments: [1, 2], value: 3.5", "got 3, expected 3.5"),
        ("state: own.done, arguments: {name: x}, result: true", "result: got None, expected True"),
        (
            "state: own.done, arguments: {name: x}, changes: {}",
            "changes: got {'a': 1}, expected {}",
        ),
        ("state: own.done, arguments: {name: x}, comment: foo", "expected 'foo' in it"),
        ("grain: colour, value: red", "got 'blue', expected 'red'"),
        ("grain: color", "no grain 'color'; there are: colour"),
    ],
)
def test_failure_of_custom_code_names_the_difference(
    tree: Tree, kit: Any, test: str, words: str
) -> None:
    code, shown = kit(tree(f"tests:\n- {{{test}}}\n", CUSTOM))
    assert code == 1
    assert words in shown
    assert "a_test.yaml:2: " in shown


def test_nothing_on_the_host_is_changed(tree: Tree, kit: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("safe")
    new = tmp_path / "new"
    for test, refused in (
        (f"call: mine.write, arguments: [{new}]", f"refused to write {new}"),
        (f"call: mine.remove, arguments: [{victim}]", f"refused to remove {victim}"),
        ("call: mine.run", "refused to run the command"),
        ("call: cmd.run, arguments: ['touch x']", "refused to run the command"),
        (f"state: own.forgets, arguments: {{name: {new}}}", f"refused to write {new}"),
        ("sls: calls", "refused to call cmd.run"),
    ):
        code, shown = kit(tree(f"tests:\n- {{{test}}}\n", CUSTOM))
        assert code == 1, test
        assert f"a test must not change this host: {refused}" in shown
    assert "give its answer in the test, below `functions:`" in shown
    assert victim.read_text() == "safe"
    assert not new.exists()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("tests: 1\n", 1, "expected a list, got 1"),
        ("tets: []\n", 1, "unknown key 'tets'; did you mean 'tests'?"),
        ("tests:\n- sls: a\n  satets: []\n", 3, "unknown key 'satets'; did you mean 'states'?"),
        ("tests:\n- sls: a\n  call: b\n", 2, "exactly one of sls, state, call, grain"),
        ("tests:\n- name: x\n", 2, "exactly one of"),
        ("tests:\n- sls: a\n  value: 1\n", 3, "unknown key 'value'"),
        ("tests:\n- sls: a\n  system: debain-12\n", 3, "did you mean 'debian-12'"),
        ("tests:\n- sls: a\n  states:\n  - function: x\n", 4, "a state needs an `id`"),
        ("tests:\n- sls: a\n  grains: []\n", 3, "expected a mapping, got a list"),
        ("tests:\n- call: a.b\n  arguments: 1\n", 3, "expected a mapping or a list"),
        ("tests:\n- sls: 1\n", 2, "expected a name or a list"),
        ("file_roots: [nowhere]\ntests: []\n", 1, "no such folder"),
        ("tests: [\n", 1, "expected"),
    ],
)
def test_malformed_file_is_a_usage_error_with_its_line(
    tree: Tree, kit: Any, text: str, line: int, words: str
) -> None:
    code, shown = kit(tree(text))
    assert code == 2
    assert words in shown
    assert f"a_test.yaml:{line}" in shown


def test_config_cannot_move_the_folders_of_tests(tree: Tree, kit: Any, tmp_path: Path) -> None:
    code, shown = kit(tree(f"config: {{cache_dir: {tmp_path}/x}}\ntests: [{{sls: web}}]\n"))
    assert code == 2
    assert "cache_dir can't be set in tests" in shown


def test_config_reaches_the_templates(tree: Tree, kit: Any) -> None:
    text = "config: {my.key: v}\ntests: [{call: config.get, arguments: [my.key], value: v}]\n"
    assert kit(tree(text))[0] == 0


def test_pillar_files_are_merged_with_the_pillar_of_a_test(tree: Tree, kit: Any) -> None:
    files = {"p/top.sls": "base: {'*': [a]}\n", "p/a.sls": "a: {x: 1, y: 2}\n"}
    text = (
        "pillar_roots: [../p]\ntests:\n"
        "- {call: pillar.get, pillar: {a: {y: 3}}, arguments: [a], value: {x: 1, y: 3}}\n"
    )
    code, shown = kit(tree(text, files))
    assert code == 0, shown


def test_folder_without_tests_is_a_usage_error(kit: Any, tmp_path: Path) -> None:
    assert kit(tmp_path) == (
        2,
        f"catena: {tmp_path}: no test files; their names end with _test.yaml\n",
    )
    assert kit(tmp_path / "no")[0] == 2


def test_match_and_quiet_select_what_is_run_and_shown(tree: Tree, kit: Any) -> None:
    folder = tree("tests: [{name: one, sls: web}, {name: two, sls: web, count: 9}]\n")
    assert kit(folder, "-k", "one")[0] == 0
    assert kit(folder, "-k", "three")[0] == 2
    code, shown = kit(folder, "-q")
    assert code == 1
    assert "one" not in shown
    assert "2 tests, 1 failed" in shown


def test_junit_report(tree: Tree, kit: Any, tmp_path: Path) -> None:
    folder = tree("tests: [{name: 'a <b> \"c\"', sls: web}, {name: bad, sls: web, count: 9}]\n")
    report = tmp_path / "out.xml"
    assert kit(folder, "--junit", report)[0] == 1
    top = ElementTree.parse(report).getroot()
    assert (top.get("tests"), top.get("failures")) == ("2", "1")
    first, second = top.iter("testcase")
    assert first.get("name") == 'a <b> "c"'
    assert first.find("failure") is None
    failure = second.find("failure")
    assert failure is not None
    assert "expected 9 states" in str(failure.get("message"))
    assert second.get("line") == "1"


def test_tests_see_no_grain_of_this_host(tree: Tree, kit: Any) -> None:
    code, shown = kit(tree("tests: [{call: grains.items, value: {id: test-minion}}]\n"))
    assert code == 0, shown

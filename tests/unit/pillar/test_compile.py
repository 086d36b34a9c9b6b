"""Expected pillars are those that Salt 3008.5 gave (recorded cases `pillar/*`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from catena.core.context import Context, Host
from catena.core.errors import ConfigError
from catena.core.nested import merge
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.fileserver.roots import RootsClient
from catena.pillar.compile import PillarResult, PillarSettings, compile_pillar

Compile = Callable[..., PillarResult]
ALL = "base:\n  '*': [p]\n"


class Folders:
    def __init__(self, top: Path) -> None:
        self.conf_dir = top / "conf"
        self.cache_dir = top / "cache"


def pillar_get(context: Context, key: str, default: Any = "") -> Any:
    return context.pillar.get(key, default)


def functions(prefix: str) -> dict[str, Plugin] | None:
    found = {"pillar.get": Plugin("pillar.get", pillar_get, FunctionMark())}
    return found if prefix == "pillar" else None


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Return what compiles the pillar of web1 from files given as path -> text."""

    def run(
        files: Mapping[str, str],
        override: Mapping[str, Any] | None = None,
        environments: tuple[str, ...] = ("base",),
        visible: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> PillarResult:
        for path, text in files.items():
            file = tmp_path / (path if path.split("/")[0] in environments else f"base/{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        context = Context(
            opts={"id": "web1"},
            grains={"id": "web1", "role": "web"},
            pillar={"leak": "from outside"},
            functions=Registry("function", {}, FunctionMark, functions),
            states=Registry("state", {}, StateMark),
            files=RootsClient({env: [tmp_path / env] for env in environments}),
            host=cast(Host, Folders(tmp_path)),
        )
        return compile_pillar(context, PillarSettings(**settings), override, visible)

    return run


def test_only_targeted_files_are_in_and_later_ones_win(compiled: Compile) -> None:
    top = (
        "base:\n  '*': [common]\n  'role:web':\n    - match: grain\n    - web\n"
        "  'role:db':\n    - match: grain\n    - db\n  'G@role:web and web*': [comp]\n"
        "  'other-*': [db]\n"
    )
    files = {
        "top.sls": top,
        "common.sls": "common: 1\nshared: {a: 1, l: [1]}\n",
        "web.sls": "web: 1\nshared: {b: 2, l: [2]}\n",
        "comp.sls": "comp: 1\nshared: {a: 3}\n",
        "db.sls": "secret: of db\n",
    }
    found = compiled(files)
    assert found.errors == ()
    assert found.pillar == {
        "common": 1,
        "web": 1,
        "comp": 1,
        "shared": {"a": 3, "b": 2, "l": [2]},
    }


def test_order_keys_decide_before_the_order_of_the_top_file(compiled: Compile) -> None:
    top = "base:\n  'web*':\n    - order: 2\n    - b\n  '*':\n    - order: 1\n    - a\n"
    assert compiled({"top.sls": top, "a.sls": "w: a", "b.sls": "w: b"}).pillar == {"w": "b"}


def test_includes_come_before_the_file_that_names_them(compiled: Compile) -> None:
    files = {
        "top.sls": ALL,
        "p.sls": (
            "include:\n  - plain\n  - keyed:\n      key: nested:under\n"
            "  - with:\n      defaults: {port: 99}\n      key: svc\nown: 1\nover: own\n"
        ),
        "plain.sls": "plain: 1\nover: plain\n",
        "keyed.sls": "k: v\n",
        "with.sls": "port: {{ port }}\n",
    }
    assert compiled(files).pillar == {
        "plain": 1,
        "over": "own",
        "nested": {"under": {"k": "v"}},
        "svc": {"port": 99},
        "own": 1,
    }


def test_relative_and_glob_includes_are_found(compiled: Compile) -> None:
    files = {
        "top.sls": "base:\n  '*': [app]\n",
        "app/init.sls": "include: [.one, 'parts.*']\n",
        "app/one.sls": "include: [.two]\none: 1\n",
        "app/two.sls": "two: 2\n",
        "parts/a.sls": "a: 1\n",
        "parts/b.sls": "b: 1\n",
    }
    assert compiled(files).pillar == {"one": 1, "two": 2, "a": 1, "b": 1}


def test_files_that_include_each_other_end(compiled: Compile) -> None:
    files = {"top.sls": ALL, "p.sls": "include: [q]\np: 1\n", "q.sls": "include: [p]\nq: 1\n"}
    assert compiled(files).pillar == {"p": 1, "q": 1}


def test_names_in_the_top_file_may_be_globs(compiled: Compile) -> None:
    files = {"top.sls": "base:\n  '*': ['x.*']\n", "x/a.sls": "a: 1", "x/b/init.sls": "b: 1"}
    assert compiled(files).pillar == {"a": 1, "b": 1}


def test_pillar_file_sees_earlier_files_of_the_same_minion(compiled: Compile) -> None:
    files = {
        "top.sls": "base:\n  '*': [a, b]\n",
        "a.sls": "site: north\nleak: {{ pillar.get('leak', 'none') }}\n",
        "b.sls": "seen: {{ pillar.get('site') }}\ngot: {{ salt['pillar.get']('site', 'none') }}\n",
    }
    first = compiled(files, {"given": 1}).pillar
    assert first == {"site": "north", "leak": "none", "seen": "None", "got": "none", "given": 1}
    again = compiled(files, visible={"site": "south"}).pillar
    assert again == {"site": "north", "leak": "none", "seen": "south", "got": "south"}


def test_command_line_is_joined_last_and_not_seen_by_files(compiled: Compile) -> None:
    files = {
        "top.sls": "base:\n  '*':\n    - p\n{% if pillar.get('x') %}\n    - gone\n{% endif %}\n",
        "p.sls": "seen: {{ pillar.get('x', 'nothing') }}\nd: {a: 1, l: [1]}\n",
    }
    found = compiled(files, {"x": 1, "d": {"b": 2, "l": [2]}})
    assert found.errors == ()
    assert found.pillar == {"seen": "nothing", "x": 1, "d": {"a": 1, "b": 2, "l": [2]}}


@pytest.mark.parametrize("top", [None, "", "base:\n  nobody: [p]\n"])
def test_without_a_match_the_pillar_is_empty(compiled: Compile, top: str | None) -> None:
    files = {"p.sls": "a: 1"} | ({"top.sls": top} if top is not None else {})
    assert compiled(files) == PillarResult({})


def test_missing_file_is_an_error_that_names_the_top_files_line(compiled: Compile) -> None:
    found = compiled({"top.sls": "base:\n  '*':\n    - good\n    - gone\n", "good.sls": "good: 1"})
    assert found.pillar == {"good": 1}
    assert found.errors == (
        "Specified SLS 'gone' in environment 'base' is not available on the salt master; "
        "pillar://top.sls:4",
    )


def test_missing_file_may_be_allowed(compiled: Compile) -> None:
    top = "base:\n  '*':\n    - ignore_missing: true\n    - gone\n"
    assert compiled({"top.sls": top}).errors == ()


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("a: 1\nb: {{ nosuch }}\n", 2),
        ("a: 1\na: 2\n", 2),
        ("- list\n", 0),
        ("a: [\n", 1),
        ("include: x\n", 1),
        ("include:\n  - a: 1\n", 2),
        ("include:\n  - a\n  - [b]\n", 3),
    ],
)
def test_faults_name_file_and_line(compiled: Compile, file: str, line: int) -> None:
    found = compiled({"top.sls": ALL, "p.sls": file, "a.sls": ""})
    place = f"pillar://p.sls:{line}" if line else "pillar://p.sls"
    assert len(found.errors) == 1
    assert place in found.errors[0]


def test_all_errors_of_a_pillar_are_reported(compiled: Compile) -> None:
    top = "base:\n  '*': [a, b, c]\n"
    found = compiled({"top.sls": top, "a.sls": "{{ x }}", "b.sls": "ok: 1", "c.sls": "a: {{ b: c"})
    assert len(found.errors) == 2
    assert found.pillar == {"ok": 1}


def test_errors_for_the_minion_show_no_line_that_may_hold_another_ones_secret(
    compiled: Compile,
) -> None:
    files = {"top.sls": ALL, "p.sls": "password: hunter2\n{{ nosuch }}\n"}
    found = compiled(files)
    assert "hunter2" not in str(found.errors)
    assert "hunter2" in str(found.details)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("- a\n", "a top file is a mapping"),
        ("base: [a]\n", "expected a mapping of targets"),
        ("base:\n  '*': 3\n", "expected a list of names"),
        ("base:\n  'a and':\n    - p\n", "malformed compound target"),
        ("base:\n  x:\n    - match: grian\n    - p\n", "did you mean 'grain'"),
        ("base:\n  x: {{ y }}\n", "'y' is undefined"),
    ],
)
def test_wrong_top_file_is_an_error(compiled: Compile, top: str, message: str) -> None:
    found = compiled({"top.sls": top, "p.sls": "a: 1"})
    assert found.pillar == {}
    assert message in found.errors[0]
    assert "pillar://top.sls" in found.errors[0]


def test_environments_join_with_base_first(compiled: Compile) -> None:
    files = {
        "base/top.sls": "base:\n  '*': [p]\n",
        "base/p.sls": "who: base\nb: 1\n",
        "dev/top.sls": "dev:\n  '*': [p]\n",
        "dev/p.sls": "who: dev\n",
    }
    found = compiled(files, environments=("base", "dev"))
    assert found.pillar == {"who": "dev", "b": 1}
    only = compiled(files, environments=("base", "dev"), pillarenv="dev")
    assert only.pillar == {"who": "dev"}


def test_endless_includes_end_at_a_limit(compiled: Compile) -> None:
    files = {f"d{n}.sls": f"include: [d{n + 1}]\n" for n in range(70)}
    found = compiled({**files, "top.sls": "base:\n  '*': [d0]\n"})
    assert "too many files or includes" in found.errors[0]


FIRST = {"d": {"a": 1, "l": [1]}, "l": [1, 2], "s": "x"}
SECOND = {"d": {"b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}


@pytest.mark.parametrize(
    ("strategy", "lists", "expected"),
    [
        ("smart", False, {"d": {"a": 1, "b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}),
        ("recurse", True, {"d": {"a": 1, "b": 2, "l": [1, 3]}, "l": [1, 2, 3], "s": "y", "n": 1}),
        ("none", False, {"d": {"a": 1, "b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}),
        ("overwrite", False, {"d": {"b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}),
        ("aggregate", False, {"d": {"b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}),
        ("none", True, {"d": {"a": 1, "b": 2, "l": [3]}, "l": [2, 3], "s": "y", "n": 1}),
        (
            "list",
            False,
            {"d": [FIRST["d"], SECOND["d"]], "l": [[1, 2], [2, 3]], "s": ["x", "y"], "n": 1},
        ),
    ],
)
def test_each_strategy_joins_in_its_way(strategy: str, lists: bool, expected: Any) -> None:
    before = repr((FIRST, SECOND))
    assert merge(FIRST, SECOND, strategy, lists) == expected
    assert repr((FIRST, SECOND)) == before


def test_unknown_strategy_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'smart'"):
        merge({}, {}, "smrt", False)


def test_file_included_under_two_keys_stands_under_both(compiled: Compile) -> None:
    files = {
        "top.sls": ALL,
        "p.sls": "include: [{q: {key: one}}, {q: {key: 'two:deep'}}]\n",
        "q.sls": "q: 1\n",
    }
    assert compiled(files).pillar == {"one": {"q": 1}, "two": {"deep": {"q": 1}}}


def test_files_that_include_each_other_are_rendered_once(compiled: Compile) -> None:
    files = {
        "top.sls": ALL,
        "p.sls": "include: [q]\np: 1\nv: p\n",
        "q.sls": "include: [p]\nq: 1\nv: q\n",
    }
    assert compiled(files).pillar == {"p": 1, "q": 1, "v": "p"}


def test_names_of_an_include_hold_for_what_it_includes_and_for_plain_names_after_it(
    compiled: Compile,
) -> None:
    see = "{{ x|default('none') }}\n"
    files = {
        "top.sls": ALL,
        "p.sls": "include: [{q: {defaults: {x: 1}}}, r, {s: {key: k}}]\n",
        "q.sls": "include: [t]\nq: " + see,
        **{f"{name}.sls": f"{name}: {see}" for name in "rst"},
    }
    assert compiled(files).pillar == {"q": 1, "r": 1, "t": 1, "k": {"s": "none"}}


def test_included_pillar_overrides_with_includes_override_sls(compiled: Compile) -> None:
    files = {"top.sls": ALL, "p.sls": "include: [q]\nv: p\n", "q.sls": "v: q\n"}
    assert compiled(files).pillar == {"v": "p"}
    assert compiled(files, includes_override_sls=True).pillar == {"v": "q"}


ENVIRONMENTS = {
    "base/top.sls": "base: {'*': [a]}\n",
    "dev/top.sls": "base: {'*': [b]}\ndev: {'*': [a]}\n",
    "base/a.sls": "v: base\na: 1\n",
    "base/b.sls": "v: b\nb: 1\n",
    "dev/a.sls": "v: dev\nd: 1\n",
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"v": "dev", "b": 1, "d": 1}),
        ({"env_order": ["dev", "base"]}, {"v": "b", "b": 1, "d": 1}),
        ({"strategy": "none"}, {"v": "base", "a": 1}),
        ({"pillarenv": "dev"}, {"v": "dev", "d": 1}),
    ],
)
def test_last_top_file_that_names_a_target_says_what_it_gets(
    compiled: Compile, settings: Any, expected: Any
) -> None:
    found = compiled(ENVIRONMENTS, environments=("base", "dev"), **settings)
    assert (found.pillar, found.errors) == (expected, ())


def test_name_given_twice_counts_where_it_stands_first(compiled: Compile) -> None:
    top = "base:\n  '*': [a, b, a]\n  'w*': [a]\n"
    files = {"top.sls": top, "a.sls": "v: a\n", "b.sls": "v: b\n"}
    assert compiled(files).pillar == {"v": "b"}


def test_top_file_includes_others(compiled: Compile) -> None:
    files = {
        "top.sls": "include: ['mo*']\nbase: {'*': [a]}\n",
        "more.sls": "base: {'w*': [b]}\n",
        "a.sls": "a: 1\n",
        "b.sls": "b: 1\n",
    }
    assert compiled(files).pillar == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("top", "fault"),
    [
        ("base: {'*': ['zz*']}\n", "Specified SLS 'zz*' in environment 'base' is not available"),
        ("qa: {'*': [a]}\n", "No matching pillar environment for environment 'qa' found"),
        ("include: a\n", "include is not a list; pillar://top.sls:1"),
    ],
)
def test_top_file_with_a_missing_sls_is_an_error(compiled: Compile, top: str, fault: str) -> None:
    (error,) = compiled({"top.sls": top}).errors
    assert fault in error


def test_unknown_nodegroup_matches_no_minion(compiled: Compile) -> None:
    top = "base: {'*': [a], gone: [{match: nodegroup}, a]}\n"
    assert compiled({"top.sls": top, "a.sls": "a: 1\n"}).pillar == {"a": 1}

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.job import JobSpec
from catena.core.unguarded import KEY
from catena.runtime.executor import FinishedJob
from catena.runtime.host import AgentHome
from catena.runtime.session import JobSession, execution_registry, state_registry

Run = Callable[..., FinishedJob]
MASK = "**********"
JID = "20260101000000000000"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("grains.get", "a:b:1"), 2),
        (("grains.get", "nope"), ""),
        (("grains.get", "nope", "d"), "d"),
        (("grains.item", "os", "nope"), {"os": "Debian", "nope": ""}),
        (("grains.has_value", "a:b"), True),
        (("grains.has_value", "nope"), False),
        (("grains.equals", "os", "Debian"), True),
        (("grains.ls",), ["a", "id", "os", "os_family"]),
    ],
)
def test_grains_are_read_by_name_and_path(run: Run, call: tuple[Any, ...], expected: Any) -> None:
    assert run(*call).ret.value == expected


@pytest.mark.parametrize(
    ("table", "options", "expected"),
    [
        ({"Debian": {"a": 1}, "default": {"a": 0}}, {}, {"a": 1}),
        ({"RedHat": 1, "default": 0}, {}, 0),
        ({"RedHat": 1}, {}, None),
        ({"Deb*": 1}, {}, 1),
        ({"Debian": {"a": {"x": 1}}}, {"merge": {"a": {"y": 2}}}, {"a": {"x": 1, "y": 2}}),
        ({"Debian": {"b": 2}, "base": {"a": 1}}, {"base": "base"}, {"a": 1, "b": 2}),
        ({"web1": 1}, {"grain": "id"}, 1),
        ({7: "seven", 2: "two"}, {"grain": "a:b:1"}, "two"),
        ({"*": 1, "Debian": 2}, {}, 1),
        ({"Deb*": None, "Debian": 2}, {}, 2),
        ({"None": 1, "*": 2}, {"grain": "nope", "default": "none"}, None),
    ],
)
def test_filter_by_chooses_by_a_grain(
    run: Run, table: Any, options: dict[str, Any], expected: Any
) -> None:
    assert run("grains.filter_by", table, **options).ret.value == expected


def test_grain_that_is_set_is_kept_and_seen_at_once(run: Run, place: AgentHome) -> None:
    assert run("grains.set", "role:name", "db").ret.value["result"] is True
    assert run("grains.setval", "plain", [1]).ret.value == {"plain": [1]}
    assert run("grains.get", "role:name").ret.value == "db"
    assert run("grains.append", "plain", 2).ret.value == {"plain": [1, 2]}
    assert run("grains.remove", "plain", 1).ret.value == {"plain": [2]}
    assert (place.conf_dir / "grains").read_text() == "plain:\n- 2\nrole:\n  name: db\n"
    run("grains.delkey", "plain")
    assert run("grains.get", "plain").ret.value == ""


def test_setting_a_mapping_over_a_value_needs_force(run: Run) -> None:
    run("grains.set", "x", 1)
    assert "force" in run("grains.set", "x", {"a": 1}).ret.value["comment"]
    assert run("grains.set", "x", {"a": 1}, force=True).ret.value["result"] is True


def test_pillar_values_are_masked_on_a_command_line_only(run: Run, session: JobSession) -> None:
    assert run("pillar.get", "k").ret.value == MASK
    assert run("pillar.get", "k", unmask=True).ret.value == "pv"
    assert run("pillar.item", "nested:list").ret.value == {"nested:list": [MASK, MASK]}
    assert run("pillar.items").ret.value == {"k": MASK, "nested": {"list": [MASK, MASK]}}
    assert run("pillar.raw").ret.value["k"] == "pv"
    assert session.context.call("pillar.get", "k") == "pv"


def test_pillar_is_read_by_path_with_defaults(session: JobSession) -> None:
    def get(*args: Any, **kwargs: Any) -> Any:
        return session.context.call("pillar.get", *args, **kwargs)

    assert get("nested:list:0") == "x"
    assert get("nope") == ""
    assert get("nope", 5) == 5
    more = {"list": ["d"], "more": 1}
    assert get("nested", more, merge=True) == {"list": ["x", "y"], "more": 1}
    assert get("nested", more, merge=True, merge_nested_lists=True)["list"] == ["d", "x", "y"]
    assert get("nested:list", ["d"], merge=True) == ["d", "x", "y"]
    assert session.context.call("pillar.keys", "nested") == ["list"]


def test_files_come_from_the_file_server(run: Run, roots: Path, tmp_path: Path) -> None:
    (roots / "web/sub").mkdir(parents=True)
    (roots / "web/a.conf").write_text("a")
    (roots / "web/sub/b.conf").write_text("b")
    target = tmp_path / "out"
    target.mkdir()
    assert run("cp.get_file", "salt://web/a.conf", f"{target}/x").ret.value == f"{target}/x"
    assert (target / "x").read_text() == "a"
    assert run("cp.get_file", "salt://web/nope", f"{target}/y").ret.value == ""
    assert run("cp.get_file", "salt://web/a.conf", f"{target}/no/x").ret.value == ""
    assert run("cp.get_file", "salt://web/a.conf", f"{target}/no/x", makedirs=True).ret.value
    assert sorted(run("cp.get_dir", "salt://web", str(target)).ret.value) == [
        f"{target}/web/a.conf",
        f"{target}/web/sub/b.conf",
    ]
    assert run("cp.get_file_str", "salt://web/a.conf").ret.value == "a"
    assert run("cp.list_master").ret.value == ["web/a.conf", "web/sub/b.conf"]
    assert "web/sub" in run("cp.list_master_dirs").ret.value
    assert Path(run("cp.cache_file", "salt://web/a.conf").ret.value).read_text() == "a"
    assert len(run("cp.cache_dir", "salt://web", include_pat="*b*").ret.value) == 1


@pytest.mark.parametrize(
    "call",
    [
        ("cp.get_file", "salt://../etc/passwd", "/tmp/x"),
        ("cp.get_file", "salt://a", "relative"),
        ("cp.get_file", "/etc/passwd", "/tmp/x"),
        ("cp.get_url", "ftp://host/x"),
    ],
)
def test_addresses_that_lead_elsewhere_are_refused(run: Run, call: tuple[str, ...]) -> None:
    outcome = run(*call)
    assert (outcome.raised, outcome.ret.retcode) == (True, 1)


def test_states_are_listed_by_their_names(run: Run, roots: Path) -> None:
    (roots / "web").mkdir()
    (roots / "web/init.sls").write_text("")
    (roots / "web/more.sls").write_text("")
    assert run("cp.list_states").ret.value == ["web", "web.more"]


def test_host_without_an_agent_has_no_jobs(run: Run) -> None:
    assert run("saltutil.running").ret.value == []
    assert run("saltutil.find_job", JID).ret.value == {}
    assert "no job" in run("saltutil.term_job", JID).ret.value
    assert "is not a signal" in run("saltutil.signal_job", JID, "NOSUCH").ret.value
    assert "is not a job id" in run("saltutil.kill_job", "../x").ret.value


def test_unknown_kind_of_custom_file_is_refused(session: JobSession) -> None:
    from catena.core.errors import UsageError

    with pytest.raises(UsageError, match="did you mean 'modules'"):
        session.host.sync("module")


def test_every_function_of_the_runtime_can_be_explained() -> None:
    registry = execution_registry()
    for prefix in ("cp", "grains", "mgractionchains", "pillar", "saltutil"):
        plugins = registry.module(prefix)
        assert plugins
        for plugin in plugins.values():
            assert plugin.doc(), plugin.name
            assert plugin.signature() is not None


def test_minion_alone_has_a_mine_of_its_own(run: Any) -> None:
    wanted = {"test.echo": ["x"], "alias": [{"mine_function": "grains.get"}, "os"]}
    assert run("mine.update", mine_functions=wanted).ret.value is True
    assert run("mine.get", "*", "alias").ret.value == {"web1": "Debian"}
    assert run("mine.get", "*", "alias,test.echo").ret.value == {
        "alias": {"web1": "Debian"},
        "test.echo": {"web1": "x"},
    }
    assert run("mine.get", "db*", "alias").ret.value == {}
    run("mine.delete", "alias")
    assert run("mine.get", "*", "alias").ret.value == {}


def test_mine_update_keeps_previous_values_of_other_and_failed_functions(run: Any) -> None:
    run("mine.send", "test.echo", "x")
    run("mine.send", "failing", "old", mine_function="test.echo")
    assert run("mine.update", mine_functions={"failing": {"mine_function": "no.such"}}).ret.value
    found = run("mine.get", "*", "failing,test.echo").ret.value
    assert found == {"failing": {"web1": "old"}, "test.echo": {"web1": "x"}}


def test_mine_update_with_clear_keeps_only_new_values(run: Any) -> None:
    run("mine.send", "test.echo", "x")
    run("mine.send", "failing", "old", mine_function="test.echo")
    wanted = {"failing": {"mine_function": "no.such"}, "new": [{"mine_function": "test.ping"}]}
    assert run("mine.update", clear=True, mine_functions=wanted).ret.value is True
    assert run("mine.get", "*", "failing,new,test.echo").ret.value == {"new": {"web1": True}}


@pytest.mark.parametrize("wanted", [["test.ping", "test.version"], [{"test.ping": []}]])
def test_mine_update_accepts_lists_of_names_and_of_one_key_mappings(
    run: Any, wanted: list[Any]
) -> None:
    assert run("mine.update", mine_functions=wanted).ret.value is True
    assert run("mine.get", "*", "test.ping").ret.value == {"web1": True}
    many = run("mine.get", "*", "test.ping,test.version").ret.value
    assert ("test.version" in many) == (len(wanted) == 2)


@pytest.mark.parametrize("wanted", ["test.ping", 7, [["test.ping"]]])
def test_mine_update_refuses_functions_that_are_no_list_or_mapping(run: Any, wanted: Any) -> None:
    run("mine.send", "test.echo", "x")
    outcome = run("mine.update", clear=True, mine_functions=wanted)
    assert outcome.raised
    assert "mine_functions" in outcome.ret.value
    assert run("mine.get", "*", "test.echo").ret.value == {"web1": "x"}


@pytest.mark.parametrize("wanted", [None, {}, []])
@pytest.mark.parametrize("clear", [False, True])
def test_mine_update_without_functions_keeps_all_values(
    run: Any, wanted: Any, clear: bool
) -> None:
    run("mine.send", "test.echo", "x")
    assert run("mine.update", clear=clear, mine_functions=wanted).ret.value is None
    assert run("mine.get", "*", "test.echo").ret.value == {"web1": "x"}


def test_mine_functions_of_the_settings_have_precedence_over_the_pillar(
    session: JobSession, pillar: dict[str, Any]
) -> None:
    pillar["mine_functions"] = [{"test.echo": ["pillar"]}, "test.ping"]
    opts = {**session.context.opts, "mine_functions": {"test.echo": ["settings"]}}
    context = session.context.with_(opts=opts)
    assert context.call("mine.valid") == {"test.echo": ["settings"], "test.ping": []}
    context.call("mine.update")
    assert context.call("mine.get", "*", "test.echo") == {"web1": "settings"}
    assert context.call("mine.get", "*", "test.ping") == {"web1": True}


def test_mine_is_kept_when_the_cache_folder_does_not_exist_yet(run: Any, place: AgentHome) -> None:
    place.cache_dir.rmdir()
    assert run("mine.send", "test.echo", "x").ret.value is True
    assert run("mine.get", "*", "test.echo").ret.value == {"web1": "x"}


def test_templates_merge_and_serialize(run: Any) -> None:
    one, two = {"a": {"x": 1, "l": [1]}}, {"a": {"y": 2, "l": [2]}}
    assert run("slsutil.merge", one, two).ret.value == {"a": {"x": 1, "y": 2, "l": [2]}}
    merged = run("slsutil.merge", one, two, strategy="aggregate").ret.value
    assert merged == two
    assert run("slsutil.merge", one, two, strategy="overwrite").ret.value == two
    assert run("slsutil.merge_all", [one, two, {"b": 1}]).ret.value["b"] == 1
    assert run("slsutil.serialize", "json", one).ret.value == '{"a": {"x": 1, "l": [1]}}'
    assert run("slsutil.deserialize", "yaml", "a: [1]").ret.value == {"a": [1]}
    assert run("slsutil.serialize", "jsn", one).ret.retcode == 1


def test_files_of_a_formula_are_found(run: Any, roots: Path) -> None:
    (roots / "f" / "sub").mkdir(parents=True)
    (roots / "f" / "defaults.yaml").write_text("port: 80\nlist: [1]\n")
    (roots / "f" / "map.jinja").write_text("")
    assert run("slsutil.findup", "f/sub", ["map.jinja"]).ret.value == "f/map.jinja"
    assert run("slsutil.path_exists", "f/sub").ret.value is True
    assert run("slsutil.file_exists", "f/none").ret.value is False
    assert run("defaults.get", "f:port").ret.value == 80
    assert run("defaults.merge", {"a": 1, "b": [1]}, {"b": [2]}, merge_lists=True).ret.value == {
        "a": 1,
        "b": [1, 2],
    }


def test_template_is_rendered_with_the_names_of_its_context(
    roots: Path, run: Callable[..., FinishedJob], tmp_path: Path
) -> None:
    (roots / "t").write_text("{{ a }} {{ b }}\n")
    made = tmp_path / "made"
    done = run("cp.get_template", "salt://t", str(made), context={"a": 2}, a=1, b=3)
    assert done.ret.value == str(made)
    assert made.read_text() == "2 3\n"
    wrong = run("cp.get_template", "salt://t", str(made), context="a")
    assert "context is a mapping of names, not 'a'" in wrong.ret.value


def test_template_without_a_folder_names_the_folder(
    roots: Path, run: Callable[..., FinishedJob], tmp_path: Path
) -> None:
    (roots / "t").write_text("text")
    made = tmp_path / "none" / "made"
    done = run("cp.get_template", "salt://t", str(made))
    assert not done.ret.success
    assert f"{made.parent}: no such folder; makedirs=True creates it" in done.ret.value
    assert run("cp.get_template", "salt://t", str(made), makedirs=True).ret.value == str(made)
    assert run("cp.get_template", "salt://t", str(made.parent)).ret.value == str(made.parent / "t")


@pytest.mark.parametrize("args", [(), ("ls",)])
def test_variable_before_a_command_is_explained(
    run: Callable[..., FinishedJob], args: tuple[str, ...]
) -> None:
    assert "begins with env, as in 'env FOO=" in run("cmd.run", *args, FOO="bar env").ret.value


def test_functions_that_take_any_keyword_take_one_called_context() -> None:
    clashing = [
        name
        for registry in (execution_registry(), state_registry())
        for name in registry.names()
        for first, *others in [list(inspect.signature(registry[name].call).parameters.values())]
        if any(one.kind is one.VAR_KEYWORD for one in others)
        and first.kind is not first.POSITIONAL_ONLY
    ]
    assert clashing == []


@pytest.mark.parametrize("fun", ["pillar.items", "pillar.data"])
@pytest.mark.parametrize(
    ("given", "shows"), [({}, True), ({"unmask": True}, True), ({"unmask": False}, False)]
)
def test_unmask_wins_over_the_setting_that_shows_pillar(
    session: JobSession, fun: str, given: dict[str, bool], shows: bool
) -> None:
    context = session.context.with_(
        opts={**session.context.opts, "pillar_mask_output": False},
        job=JobSpec("20260101000000000000", fun, (), {}),
    )
    assert context.call(fun, **given)["k"] == ("pv" if shows else MASK)


def test_unmask_false_hides_values_in_templates_too(session: JobSession) -> None:
    asked = ("pillar.get", "k"), ("pillar.items",), ("pillar.item", "k"), ("pillar.raw", "k")
    for fun, *args in asked:
        found = session.context.call(fun, *args, unmask=False)
        assert "pv" not in str(found)
        assert "pv" in str(session.context.call(fun, *args))


@pytest.mark.parametrize("call", ["get_file_str", "cache_file", "cache_files"])
def test_function_that_only_fetches_files_is_inside_the_guard_of_test_mode(
    run: Run, roots: Path, call: str
) -> None:
    (roots / "data").write_text("said")
    text = "{%% set x = salt['cp.%s']('salt://data') %%}\na: {test.configurable_test_state: []}\n"
    (roots / "a.sls").write_text(text % call)
    (row,) = run("state.apply", "a", test=True).ret.value.values()
    assert KEY not in row
    assert run(f"cp.{call}", "salt://data").ret.success

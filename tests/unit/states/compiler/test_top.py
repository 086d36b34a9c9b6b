"""Top files."""

from typing import Any

import pytest

from catena.core.errors import NotAllowedError

NOP = {f"{name}.sls": f"{name}: test.nop\n" for name in ("a", "b", "c", "d")}


def top(world: Any, text: Any, **given: Any) -> Any:
    return world(files={"top.sls": text, **NOP}, **given).call("state.show_top")


def test_targets_are_compound_unless_they_say_how_they_match(world: Any) -> None:
    text = """
base:
  '*': [a]
  'min*': [b]
  'other': [nope]
  'G@role:web and not G@role:db': [c]
  'role:web': [{match: grain}, d]
"""
    assert top(world, text, grains={"role": "web"}) == {"base": ["a", "b", "c", "d"]}


def test_pillar_and_lists_are_matched(world: Any) -> None:
    text = "base:\n  'tier:gold': [{match: pillar}, a]\n  'x,minion': [{match: list}, b]\n"
    assert top(world, text, pillar={"tier": "gold"}) == {"base": ["a", "b"]}


def test_highstate_runs_in_the_order_of_the_top_file_and_each_file_once(world: Any) -> None:
    w = world(files={"top.sls": "base:\n  'm*': [c, a]\n  '*': [b, c]\n", **NOP})
    answer = w.call("state.highstate")
    assert [row["__id__"] for row in answer.values()] == ["c", "a", "b"]
    assert w.call("state.apply").keys() == answer.keys()
    assert "modules" in w.host.synced


def test_globs_in_top_files(world: Any) -> None:
    assert (
        len(world(files={"top.sls": "base: {'*': ['?']}\n", **NOP}).call("state.highstate")) == 4
    )


@pytest.mark.parametrize("text", ["base: {nobody: [a]}\n", ""])
def test_no_match_is_one_failed_row(world: Any, text: Any) -> None:
    ((key, row),) = world(files={"top.sls": text, **NOP}).call("state.highstate").items()
    assert key == "no_|-states_|-states_|-None"
    assert row["result"] is False and "minion" in row["comment"]


def environments(world: Any, strategy: Any) -> Any:
    roots = {
        "base": {"top.sls": "base: {'*': [a]}\ndev: {'*': [from_base]}\n", **NOP},
        "dev": {"top.sls": "dev: {'*': [own]}\n"},
    }
    return world(roots=roots, opts={"top_file_merging_strategy": strategy}).call("state.show_top")


def test_bases_top_file_wins_for_other_environments(world: Any) -> None:
    assert environments(world, "merge") == {"base": ["a"], "dev": ["from_base"]}


def test_each_environment_keeps_its_own(world: Any) -> None:
    assert environments(world, "same") == {"base": ["a"], "dev": ["own"]}


def test_all_top_files_are_merged(world: Any) -> None:
    assert environments(world, "merge_all") == {"base": ["a"], "dev": ["from_base", "own"]}


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("base: {'*': a}\n", "needs a list"),
        ("base: [a]\n", "must map targets to lists"),
        ("- a\n", "a mapping of environments"),
        ("base: {'*': [{mtach: grain}]}\n", "unknown entry 'mtach'"),
        ("base: {'G@a:b and': [a]}\n", "target 'G@a:b and' of base (salt://top.sls:1)"),
        ("base: {{ nosuch }}\n", "Rendering SLS 'base:top' failed"),
    ],
)
def test_malformed_top_files_are_errors(world: Any, text: Any, phrase: Any) -> None:
    (fault,) = world(files={"top.sls": text, **NOP}).call("state.highstate")
    assert phrase in fault


def test_state_top_uses_the_given_top_file(world: Any) -> None:
    w = world(files={"top.sls": "base: {'*': [a]}\n", "x/t.sls": "base: {'*': [b]}\n", **NOP})
    assert [row["__id__"] for row in w.call("state.top", "x/t.sls").values()] == ["b"]


ROOTS = {
    "base": {"top.sls": "base: {'*': [a]}\ndev: {'*': [b]}\n", **NOP},
    "dev": {"top.sls": "base: {'*': [c]}\ndev: {'*': [d]}\n", **NOP},
}


def test_run_of_one_environment_reads_its_top_file_alone(world: Any) -> None:
    w = world(roots=ROOTS)
    assert w.call("state.show_top", saltenv="dev") == {"dev": ["d"]}
    assert [row["__id__"] for row in w.call("state.apply", saltenv="dev").values()] == ["d"]


def test_configured_environment_counts_as_well(world: Any) -> None:
    w = world(roots=ROOTS, opts={"environment": "dev"})
    assert w.call("state.show_top") == {"dev": ["d"]}


def test_locked_environment_stays(world: Any) -> None:
    w = world(roots=ROOTS, opts={"environment": "dev", "lock_saltenv": True})
    with pytest.raises(NotAllowedError, match="lock_saltenv is enabled"):
        w.call("state.show_top", saltenv="base")


def test_env_order_defines_the_environments(world: Any) -> None:
    w = world(roots=ROOTS, opts={"env_order": ["dev", "gone"]})
    assert w.call("state.show_top") == {"dev": ["d"]}


@pytest.mark.parametrize(("env", "names"), [("base", ["a", "c"]), ("dev", ["b"])])
def test_target_may_name_files_of_another_environment(
    world: Any, env: str, names: list[str]
) -> None:
    text = "base: {'*': [a, {dev: b}, c]}\n"
    assert world(roots={"base": {"top.sls": text}, "dev": {}}).call("state.show_top")[env] == names


def test_top_files_include_others_whose_targets_replace_theirs(world: Any) -> None:
    more = {"more.sls": "base: {'*': [b], 'm*': [c]}\n"}
    w = world(files={"top.sls": "include: [mo*]\nbase: {'*': [a]}\n", **more, **NOP})
    assert w.call("state.show_top") == {"base": ["b", "c"]}


def test_missing_environment_is_an_error_of_its_own(world: Any) -> None:
    faults = world(files={"top.sls": "qa: {'*': [a]}\n", **NOP}).call("state.apply")
    assert [fault.partition("'")[0] for fault in faults] == [
        "No matching salt environment for environment ",
        "No matching sls found for ",
    ]


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        ({"exclude": [{"sls": "b"}, {"id": "a"}]}, ["c"]),
        ({"exclude": "a,b"}, ["c"]),
        ({"whitelist": "a,c"}, ["a", "c"]),
    ],
)
def test_highstate_can_be_narrowed(world: Any, options: Any, ran: list[str]) -> None:
    w = world(files={"top.sls": "base: {'*': [a, b, c]}\n", **NOP})
    assert [row["__id__"] for row in w.call("state.highstate", **options).values()] == ran


def test_unknown_nodegroup_matches_no_minion(world: Any) -> None:
    w = world(
        files={"top.sls": "base: {'*': [a], web: [{match: nodegroup}, b]}\n", **NOP},
        opts={"file_client": "local"},
    )
    assert w.call("state.show_top") == {"base": ["a"]}


def test_error_lists_the_nodegroups_that_the_host_knows(world: Any) -> None:
    w = world(files={"top.sls": "base:\n  web:\n  - match: nodegroup\n  - a\n", **NOP})
    (fault,) = w.call("state.highstate")
    assert "unknown nodegroup 'web'" in fault and "of its own configuration" in fault
    assert "salt://top.sls:2" in fault

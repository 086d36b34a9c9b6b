"""Top files."""

from typing import Any

import pytest

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


def test_all_are_joined(world: Any) -> None:
    assert environments(world, "merge_all") == {"base": ["a"], "dev": ["from_base", "own"]}


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("base: {'*': a}\n", "needs a list"),
        ("base: [a]\n", "must map targets to lists"),
        ("- a\n", "a mapping of environments"),
        ("base: {'*': [{mtach: grain}]}\n", "unknown entry 'mtach'"),
        ("base: {'G@a:b and': [a]}\n", "target 'G@a:b and' of base"),
        ("base: {{ nosuch }}\n", "Rendering SLS 'base:top' failed"),
    ],
)
def test_malformed_top_files_are_faults(world: Any, text: Any, phrase: Any) -> None:
    (fault,) = world(files={"top.sls": text, **NOP}).call("state.highstate")
    assert phrase in fault


def test_another_top_file(world: Any) -> None:
    w = world(files={"top.sls": "base: {'*': [a]}\n", "x/t.sls": "base: {'*': [b]}\n", **NOP})
    assert [row["__id__"] for row in w.call("state.top", "x/t.sls").values()] == ["b"]

"""SLS files: include, extend, exclude, and errors that prevent a run."""

from typing import Any

import pytest

NOP = "{0}:\n  test.nop: []\n"


def nops(*ids: Any) -> Any:
    return "".join(NOP.format(id_) for id_ in ids)


def test_included_files_run_first_wherever_the_include_stands(world: Any) -> None:
    w = world(nops("a") + "include:\n  - other\n" + nops("b"), files={"other.sls": nops("o")})
    assert list(w.ran()) == ["o", "a", "b"]


def test_dotted_names_reach_files_and_folders(world: Any) -> None:
    w = world(
        "include: [web, web.conf.extra]\n",
        files={"web/init.sls": nops("init"), "web/conf/extra.sls": nops("extra")},
    )
    rows = w.ran()
    assert list(rows) == ["init", "extra"]
    assert rows["extra"]["__sls__"] == "web.conf.extra"


def test_circular_include_does_not_own_the_states_of_its_includer(world: Any) -> None:
    w = world(
        "include: [inner]\na:\n  test.nop:\n    - require: [{sls: inner}]\n",
        files={"inner.sls": "include: [t]\n" + nops("i")},
    )
    assert list(w.ran()) == ["i", "a"]


def test_relative_includes_start_at_the_folder_of_the_file(world: Any) -> None:
    files = {
        "app/init.sls": "include: [.db, .sub.leaf]\n" + nops("app"),
        "app/db.sls": nops("db"),
        "app/sub/leaf.sls": "include: [..db, .twig]\n" + nops("leaf"),
        "app/sub/twig.sls": nops("twig"),
    }
    assert list(world(files=files).ran("app")) == ["db", "twig", "leaf", "app"]


def test_relative_include_above_the_roots_is_refused(world: Any) -> None:
    (fault,) = world("include: [...up]\n").faults()
    assert "'...up'" in fault and "above the file roots" in fault and "salt://t.sls:1" in fault


def test_globs_include_in_alphabetical_order_and_below(world: Any) -> None:
    files = {"p/b.sls": nops("b"), "p/a.sls": nops("a"), "p/deep/c.sls": nops("c")}
    assert list(world("include: ['p.*']\n", files=files).ran()) == ["a", "b", "c"]


def test_files_that_include_each_other_are_read_once(world: Any) -> None:
    w = world("include: [u]\n" + nops("t"), files={"u.sls": "include: [t]\n" + nops("u")})
    assert list(w.ran()) == ["u", "t"]


def test_missing_include_names_the_includer_and_the_nearest(world: Any) -> None:
    (fault,) = world("a: test.nop\ninclude:\n  - othre\n", files={"other.sls": ""}).faults()
    assert "Specified SLS othre in saltenv base is not available" in fault
    assert "'other'" in fault and "salt://t.sls:3" in fault


def test_missing_sls_names_the_nearest(world: Any) -> None:
    (fault,) = world(files={"webserver.sls": ""}).faults("webservr")
    assert fault.startswith("No matching sls found for 'webservr' in env 'base'")
    assert "'webserver'" in fault


@pytest.mark.parametrize("asked", ["a.sls", "a/init.sls"])
def test_name_of_a_file_is_no_sls_but_names_it(world: Any, asked: str) -> None:
    w = world(files={"a.sls": "x: test.nop\n"})
    assert "did you mean 'a'?" in w.faults(asked)[0]


def test_extend_replaces_arguments_adds_requisites_and_changes_functions(world: Any) -> None:
    w = world(
        "include: [base]\n"
        "extend:\n  svc:\n    test:\n      - comment: new\n      - require: [{test: mine}]\n"
        "  fun:\n    test: [succeed_with_changes]\n" + nops("mine"),
        files={
            "base.sls": "svc:\n  test.succeed_without_changes:\n    - comment: old\n"
            "    - require: [{test: theirs}]\n" + nops("theirs", "fun")
        },
    )
    rows = w.ran()
    assert list(rows) == ["theirs", "mine", "svc", "fun"]
    assert rows["svc"]["comment"] == "new"
    assert rows["fun"]["changes"]


def test_extend_of_an_unknown_id_names_the_nearest(world: Any) -> None:
    (fault,) = world("extend:\n  thnig:\n    test: [nop]\n" + nops("thing")).faults()
    assert fault.startswith("Cannot extend ID 'thnig' in 'base:t'") and "'thing'" in fault


def test_exclude_takes_ids_and_whole_files_out(world: Any) -> None:
    w = world(
        "include: [one, two]\nexclude: [{sls: two}, {id: one_b}]\n" + nops("t"),
        files={"one.sls": nops("one_a", "one_b"), "two.sls": nops("two_a")},
    )
    assert list(w.ran()) == ["one_a", "t"]


def test_requiring_an_excluded_state_is_a_fault_and_requiring_in_is_none(world: Any) -> None:
    text = "exclude: [{id: gone}]\n" + nops("gone") + "a:\n  test.nop:\n    - %s: [{test: gone}]\n"
    assert "does not exist" in world(text % "require").faults()[0]
    assert list(world(text % "require_in").ran()) == ["a"]


def test_requisites_in_of_an_excluded_file_are_checked_and_not_applied(world: Any) -> None:
    text = "include: [out]\nexclude: [{sls: out}]\n" + nops("b")
    gone = "a:\n  test.%s:\n    - require_in: [{test: %s}]\n"
    (fault,) = world(text, files={"out.sls": gone % ("nop", "nobody")}).faults()
    assert fault.startswith("Cannot extend ID 'nobody' in 'base:out'")
    ran = world(text, files={"out.sls": gone % ("fail_without_changes", "b")}).ran()
    assert list(ran) == ["b"]


def test_one_id_in_two_files_is_a_conflict_that_names_both(world: Any) -> None:
    w = world("include: [other]\n" + nops("same"), files={"other.sls": nops("same")})
    (fault,) = w.faults()
    assert "Detected conflicting IDs" in fault
    assert "salt://t.sls:3" in fault and "salt://other.sls:2" in fault


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a: hello\n", "ID a in SLS t is not a dictionary"),
        ("a:\n  cmd.run:\n    name: x\n", "State 'a' in SLS 't' is not formed as a list"),
        ("a:\n  test.nop:\n", "leave the colon out"),
        ("5:\n  test.nop: []\n", "is not formed as a string"),
        ("a:\n  test: []\n", "No function declared"),
        ("a:\n  test: [nop, fail_with_changes]\n", "Too many functions"),
        ("a:\n  test.nop: []\n  test.fail_with_changes: []\n", "multiple state declarations"),
        ("a:\n  test.nop:\n    - 'x 1'\n", "is a ':' missing?"),
        ("a:\n  test.nop:\n    - require: b\nb: test.nop\n", "needs to be formed as a list"),
        ("a:\n  test.nop:\n    - require: [{test: b, cmd: c}]\n", "one `module: id` pair"),
        ("a:\n  test.nop:\n    - require: [{test: [b]}]\n", "one `module: id` pair"),
        ("include: other\n", "Include Declaration in SLS t is not formed as a list"),
        ("exclude: other\n", "Exclude Declaration in SLS t is not formed as a list"),
        ("- a\n", "must be a mapping of ids"),
        ("a: {{ nosuch }}\n", "Rendering SLS 'base:t' failed"),
    ],
)
def test_malformed_files_stop_the_run_and_say_where(world: Any, text: Any, phrase: Any) -> None:
    w = world("fine: test.nop\n" + text if not text.startswith("-") else text)
    fault = w.faults()[0]
    assert phrase in fault
    assert "t.sls" in fault
    assert w.host.steps == []


def test_all_errors_are_reported_together(world: Any) -> None:
    assert len(world("a: x\nb: y\nc: [1]\n").faults()) == 3


def test_several_arguments_may_share_an_item(world: Any) -> None:
    w = world(
        "a:\n  test.succeed_without_changes:\n    - name:\n      comment: hey\n      order: 1\n"
    )
    assert w.ran()["a"]["comment"] == "hey"


def test_function_may_stand_in_the_list(world: Any) -> None:
    rows = world("a:\n  test:\n    - succeed_with_changes\n    - comment: hey\n").ran()
    assert rows["a"]["comment"] == "hey"


def test_names_expand_in_their_order_with_their_own_arguments(world: Any) -> None:
    text = (
        "m:\n  test.succeed_without_changes:\n    - comment: shared\n"
        "    - names:\n      - b\n      - a:\n        - comment: own\n      - c\n"
    )
    answer = world(text).apply()
    assert [row["name"] for row in answer.values()] == ["b", "a", "c"]
    assert [row["comment"] for row in answer.values()] == ["shared", "own", "shared"]


def test_another_environment_has_its_own_files(world: Any) -> None:
    w = world(roots={"base": {"t.sls": nops("b")}, "dev": {"t.sls": nops("d")}})
    assert list(w.ran(saltenv="dev")) == ["d"]


def test_exclude_of_the_command_line(world: Any) -> None:
    w = world("include: [one]\n" + nops("t"), files={"one.sls": nops("one")})
    assert list(w.ran(exclude="one")) == ["t"]

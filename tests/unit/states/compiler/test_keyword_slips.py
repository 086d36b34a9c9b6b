"""A misspelled keyword of the compiler is reported by states that accept any argument."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

from catena import modules, states
from catena.core import frozen
from catena.states.compiler.model import REQUISITES, Low
from catena.states.compiler.slips import WORDS, slips
from tests.unit.states.conftest import MakeWorld

#: Values that the keyword `creates` never has: the argument `create` has them.
TRUTHS = (True, False)


def _typos(word: str) -> set[str]:
    """Return *word* with each letter missing, doubled, and swapped with the next one."""
    found: set[str] = set()
    for place in range(len(word)):
        found.add(word[:place] + word[place + 1 :])
        found.add(word[: place + 1] + word[place:])
        found.add(word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :])
    # `name` is what `names` without its s is; `listen_in` has the same letter twice in a row.
    return found - WORDS - {"use", "name"}


def _told(key: str, value: object, name: str = "u") -> list[str]:
    low = Low("test", "nop", "u", name, "t", "base", 1, {key: value})
    return list(slips(low, frozenset(), lambda _: False))


@pytest.mark.parametrize("word", sorted(WORDS))
def test_typo_of_a_keyword_is_reported(word: str) -> None:
    value: object = ["v"] if word in REQUISITES or word == "names" else "v"
    for typo in _typos(word):
        (text,) = _told(typo, value)
        assert "did you mean '" in text
        # One letter may lead to two words: `listenn` is `listen` or `listen_in`.
        assert len(word) < 5 or f"'{word}" in text or word == "names", (typo, text)


@pytest.mark.parametrize(
    ("typo", "word"), [("onyl_if", "onlyif"), ("OnlyIf", "onlyif"), ("check-cmd", "check_cmd")]
)
def test_other_spelling_of_a_keyword_is_reported(typo: str, word: str) -> None:
    (text,) = _told(typo, ["true"])
    assert f"did you mean '{word}'?" in text


@pytest.mark.parametrize(
    ("sls", "told"),
    [
        ("a:\n  user.present:\n  - nmaes: [q]\n", "user.present takes no argument 'nmaes'"),
        ("a:\n  cmd.run:\n  - name: 'true'\n  - onyl_if: ['false']\n", "argument 'onyl_if'"),
        ("a:\n  cmd.run:\n  - name: 'true'\n  - create: /x\n", "did you mean 'creates'?"),
    ],
)
def test_typo_is_in_the_result_of_the_state(world: MakeWorld, sls: str, told: str) -> None:
    (row,) = world(sls).ran(test=True).values()
    (warning,) = row["warnings"]
    assert told in warning


def _arguments() -> set[str]:
    """Return the names of all arguments that built-in states and functions take."""
    found: set[str] = set()
    for package in (states, modules):
        for info in walk_packages(package.__path__, f"{package.__name__}."):
            for member in vars(import_module(info.name)).values():
                if inspect.isfunction(member):
                    if hasattr(member, "__catena__"):
                        found.update(inspect.signature(member).parameters)
                elif inspect.isclass(member) and member.__name__.endswith("Options"):
                    found.update(field.name for field in frozen.fields(member))  # type: ignore[arg-type]  # any class
    return found - WORDS


def test_arguments_of_built_in_states_are_no_typos_of_keywords() -> None:
    names = _arguments()
    assert {"user", "create", "template"} <= names
    for key in names:
        for value in TRUTHS:
            assert not _told(key, value, "n"), key
        if key != "create":
            assert not _told(key, "v", "n"), key


@pytest.mark.parametrize("key", ["user", "users", "groups", "names_of", "uname", "m_name"])
def test_argument_with_a_list_is_no_typo_of_a_short_keyword(key: str) -> None:
    assert not _told(key, ["v"])


def test_names_of_a_function_without_free_arguments_are_suggested(world: MakeWorld) -> None:
    (fault,) = world("a:\n  group.absent:\n  - nmaes: [b]\n").faults()
    assert "did you mean 'names'?" in fault

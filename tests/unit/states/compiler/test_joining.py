"""The groups of `aggregate`, against the plain way to find them."""

from __future__ import annotations

import random

import pytest

from catena.states.compiler import joining
from catena.states.compiler.joining import Grouping
from catena.states.compiler.model import Low
from catena.states.compiler.requisites import Plan, link


def low(number: int, module: str, needs: list[str], able: bool) -> Low:
    """Return a state that requires others by name, `sls: x` among them."""
    requires = [{"sls": name[4:]} if name.startswith("sls ") else {"": name} for name in needs]
    keywords = {"require": requires} if requires else {}
    return Low(
        id=f"s{number}", name=f"s{number}", state=module if able else "test", fun="done",
        sls=f"f{number // 7}", env="base", keywords=keywords, order=number,
    )  # fmt: skip


def plainly(plan: Plan, able: list[int]) -> dict[int, list[int]]:
    """Return the groups by looking at all that each state needs."""
    made: dict[str, list[list[int]]] = {}
    mates: dict[int, list[int]] = {}
    for position in able:
        needed: set[int] = set()
        waiting = [position]
        while waiting:
            links = plan.links[waiting.pop()]
            direct = [
                one for some in links.needs.values() for group in some for one in group.members
            ]
            for one in direct:
                for mate in mates.get(one, [one]):
                    if mate not in needed:
                        needed.add(mate)
                        waiting.append(mate)
        groups = made.setdefault(plan.lows[position].state, [])
        free = (
            group
            for group in groups
            if len(group) < joining.GROUP_LIMIT and needed.isdisjoint(group)
        )
        group = next(free, None)
        if group is None:
            group = []
            groups.append(group)
        group.append(position)
        mates[position] = group
    return {one: group for one, group in mates.items() if len(group) > 1}


def a_run(chance: random.Random) -> tuple[Plan, list[int]]:
    """Return some states that need earlier ones, and who of them may join."""
    lows: list[Low] = []
    able: list[int] = []
    for number in range(chance.randrange(2, 60)):
        needs: list[str] = []
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 3)) if number else 0):
            earlier = chance.randrange(max(0, number - chance.choice((1, 3, 60))), number)
            needs.append(f"s{earlier}")
        if number >= 14 and chance.random() < 0.1:
            needs.append(f"sls f{chance.randrange(number // 7)}")
        may = chance.random() < 0.8
        able += [number] if may else []
        lows.append(low(number, chance.choice(("own", "own", "other")), needs, may))
    plan = link(lows)
    assert plan.errors == []
    return plan, able


@pytest.mark.parametrize("seed", range(300))
def test_groups_are_those_of_the_plain_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(joining, "GROUP_LIMIT", chance.choice((2, 3, 500)))
    plan, able = a_run(chance)
    assert Grouping(plan, able).groups() == plainly(plan, able)


def chained(chains: int, length: int) -> tuple[Plan, list[int]]:
    """Return chains whose links take turns in the run."""
    lows = [
        low(number, "own", [f"s{number - chains}"] if number >= chains else [], True)
        for number in range(chains * length)
    ]
    return link(lows), list(range(len(lows)))


@pytest.mark.parametrize("chains", [1, 2, 600])
def test_chain_is_never_walked_back(chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, able = chained(chains, 20)
    monkeypatch.delattr(Grouping, "_needed")
    found = Grouping(plan, able).groups()
    assert max(map(len, found.values()), default=1) == min(chains, joining.GROUP_LIMIT)

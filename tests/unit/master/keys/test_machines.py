"""Owners of machine ids."""

from __future__ import annotations

import itertools

from catena.master.keys.machines import MachineClaim, owner


def test_owner_of_a_machine_id_does_not_depend_on_the_order_of_claims() -> None:
    claims = [
        MachineClaim("first", 1.0, used=False, enrolled=True),
        MachineClaim("works", 9.0, used=True, enrolled=True),
        MachineClaim("later", 10.0, used=True, enrolled=False),
        MachineClaim("left", 0.0, used=False, enrolled=False),
    ]
    for order in itertools.permutations(claims):
        assert owner(order) == "works"
        assert owner(claim for claim in order if not claim.used) == "first"
    assert owner([]) == owner(claims[3:]) == ""


def test_minions_that_alternated_as_one_machine_do_not_refuse_each_other() -> None:
    claims = [
        MachineClaim("b", 1.0, used=True, enrolled=True),
        MachineClaim("a", 1.0, used=True, enrolled=True),
    ]
    assert owner(claims) == "a"

"""What each engine in `master.engines.ENGINES` must have outside its class."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from catena.core.fsm import Machine
from catena.master.engines import ENGINES, EngineClass
from catena.master.workers.process import TASKS
from tests.support.greetings.engine import Greetings

ROOT = Path(__file__).parents[3]
#: Contracts of the import-linter that name every engine.
CONTRACTS = ("Engines know nothing of each other", "Executions and requests know no engine")


def package_of(engine: EngineClass) -> str:
    """Return the name of an engine's package in the master: "chains"."""
    return engine.__module__.rpartition(".")[0].removeprefix("catena.master.")


def machines_of(package: str) -> list[Machine[Any, Any]]:
    """Return the state machines in the module `lifecycle` of a package."""
    module = import_module(f"{package}.lifecycle")
    return [found for found in vars(module).values() if isinstance(found, Machine)]


def named_in(contract: str) -> set[str]:
    """Return the packages in the first layer of a contract, also those in brackets."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = [
        each for each in config["tool"]["importlinter"]["contracts"] if each["name"] == contract
    ]
    return set(re.findall(r"\w+", found["layers"][0]))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_import_contract_names_every_engine(contract: str) -> None:
    assert {package_of(engine) for engine in ENGINES} - named_in(contract) == set()


@pytest.mark.parametrize("engine", (*ENGINES, Greetings))
def test_life_cycles_of_an_engine_are_in_the_reference(engine: EngineClass) -> None:
    package = engine.__module__.rpartition(".")[0]
    described = [cycle.machine for cycle in engine.life_cycles]
    missing = [each.name for each in machines_of(package) if each not in described]
    assert missing == []


def test_worker_tasks_exist_and_have_unique_names() -> None:
    names = Counter(TASKS.keys())
    for engine in ENGINES:
        names.update(engine.worker_tasks.keys())
        for module in engine.worker_tasks.values():
            assert module.startswith(engine.__module__.rpartition(".")[0])
            assert callable(import_module(module).task)
    assert [name for name, count in names.items() if count > 1] == []

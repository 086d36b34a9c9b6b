"""Every package's findings and retentions are part of `catena doctor` and of pruning."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from catena.master import contributions
from catena.master.process.retention import Retention

MASTER = Path(contributions.__file__).parent
#: Modules of these names that contribute in another way, each with the reason.
OTHERS = {
    "store.findings": "master.process.checkup calls it for every database",
    "process.retention": "it defines and runs retentions",
}


def modules(name: str) -> list[ModuleType]:
    """Return the modules *name* of the master's packages."""
    found = [f"{path.parent.name}.{name}" for path in sorted(MASTER.glob(f"*/{name}.py"))]
    return [import_module(f"catena.master.{each}") for each in found if each not in OTHERS]


@pytest.mark.parametrize("module", modules("findings"), ids=lambda module: str(module.__name__))
def test_doctor_calls_every_check_of_a_package(module: ModuleType) -> None:
    made = contributions.checks()
    used: list[object] = [*made.host, *made.store]
    public = [
        function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert public
    assert [each.__name__ for each in public if each not in used] == []


@pytest.mark.parametrize("module", modules("retention"), ids=lambda module: str(module.__name__))
def test_pruning_uses_every_retention_of_a_package(module: ModuleType) -> None:
    used = {each.name for each in contributions.retention()}
    own = [each for each in vars(module).values() if isinstance(each, Retention)]
    if not own:
        own = [module.retention([])]
    assert {each.name for each in own} - used == set()

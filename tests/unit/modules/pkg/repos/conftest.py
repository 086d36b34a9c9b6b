from tests.unit.states.conftest import world

__all__ = ["world"]

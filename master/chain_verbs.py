"""The table of the chains' verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catena.master.chains.service import ChainService
from catena.master.gateway import Handler


def table(service: ChainService) -> Mapping[str, Handler]:
    """Return verb -> handler; each gives the record and the caller's name to the service."""
    return {
        "chain.create": _named(service.create),
        "chain.add": _named(service.add),
        "chain.edit": _named(service.edit),
        "chain.move": _named(service.move),
        "chain.remove_entry": _named(service.remove_entry),
        "chain.apply": _named(service.apply),
        "chain.schedule": _named(service.schedule),
        "chain.approve": _named(service.approve),
        "chain.list": _named(service.list),
        "chain.show": _named(service.show),
        "chain.watch": _named(service.watch),
        "chain.cancel": _named(service.cancel),
        "chain.retry": _named(service.retry),
        "chain.release": _named(service.release),
        "chain.render": _named(service.render),
        "chain.preview": _named(service.preview),
        "chain.delete": _named(service.delete),
    }


def _named(method: Callable[[Any, str], Any]) -> Handler:
    return lambda caller, record: method(record, caller.name)

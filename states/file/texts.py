"""Texts of `source` and `sources` for file.append, file.prepend and file.blockreplace."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, List, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.file import content
from catena.modules.file.source import SourceMissingError
from catena.modules.shared.arguments import listed
from catena.states.file.managed import managed_order
from catena.states.file.managed import new_content as content_of
from catena.states.file.options import ManagedOptions


def source_texts(context: Context, name: str, options: Mapping[str, Any]) -> List[str]:
    """Return the texts of the sources, rendered by `template` (jinja).

    Raises:
        UsageError: source and sources, or both kinds of hashes, are given.
        CommandExecutionError: a source can't be fetched.
        RenderError: a template fails.
    """
    for one, many in (("source", "sources"), ("source_hash", "source_hashes")):
        if options.get(one) and options.get(many):
            raise UsageError(f"{one} and {many} are mutually exclusive")
    locations = listed(options.get("sources")) or [options.get("source")]
    hashes = listed(options.get("source_hashes")) or [options.get("source_hash")]
    pairs = list(zip_longest(locations, hashes[: len(locations)]))
    return [_text(context, name, at, digest, options) for at, digest in pairs if at]


def _text(
    context: Context, name: str, location: Any, digest: Any, options: Mapping[str, Any]
) -> str:
    chosen = ManagedOptions(
        source=location,
        source_hash=str(digest or ""),
        template=options.get("template", "jinja"),
        context=options.get("context"),
        defaults=options.get("defaults"),
    )
    try:
        data = content_of(context, managed_order(context, name, chosen))
    except SourceMissingError:
        raise CommandExecutionError(f"Failed to load template file {location}") from None
    return content.decode(data or b"")

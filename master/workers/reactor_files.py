"""Reactor files, rendered in a worker process by a session that was made before they came.

An event waits for its reaction, and a third of what the rendering of a small file takes does not
depend on it: a session, and Jinja's environment. Each file has its own all the same; it is made
when the file before it was answered and nobody waits.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.context import Context
from catena.core.errors import CatenaError, NotFoundError
from catena.core.records import encode
from catena.reactors.reaction import parse
from catena.renderers.pipeline import render
from catena.renderers.source import Source
from catena.runtime.master_session import master_session

LOG = logging.getLogger(__name__)


class ReactorFiles:
    """Renders reactor files, one after the other.

    Args:
        settings: the master's.
    """

    def __init__(self, settings: MasterSettings) -> None:
        self._settings = settings
        self._ready: Context | None = None

    def reactions(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Render a reactor SLS with an event.

        Args:
            params: file (path or salt:// address), tag, data.

        Returns:
            One encoded reactors.reaction.Reaction per call, in their order.

        Raises:
            NotFoundError: there is no such file.
            RenderError: the file is broken; the message names file and line.
        """
        name = params["file"]
        context, self._ready = self._ready or self._context(), None
        path = _reactor_file(context, name)
        source = Source(path.read_text(encoding="utf-8"), name, sls=Path(name).stem)
        variables = {"tag": params["tag"], "data": params["data"]}
        rendered = render(context, source, self._settings.renderer, variables)
        return [encode(reaction) for reaction in parse(rendered.data, name)]

    def make_ready(self) -> None:
        """Make what the next file is rendered with, if it is not there."""
        if self._ready is not None:
            return
        from catena.renderers import jinja
        from catena.renderers.jinja_options import configured

        try:
            context = self._context()
            jinja.environment_for(context, Source("", "").saltenv, configured(context.opts, True))
        except (CatenaError, OSError) as error:
            # The next file meets it again, and says it to whoever asked.
            LOG.debug("nothing is ready for reactor files: %s", error)
            return
        self._ready = context

    def _context(self) -> Context:
        name = f"{socket.gethostname()}_master"
        return master_session(self._settings, name, {}, self._settings.file_roots).context


def _reactor_file(context: Context, name: str) -> Path:
    if name.startswith("salt://"):
        found = context.files.fetch(name[len("salt://") :])
        if found is None:
            raise NotFoundError(f"{name} is not in the file roots")
        return found
    path = Path(name)
    if not path.is_file():
        raise NotFoundError(f"{name}: no such reactor file")
    return path

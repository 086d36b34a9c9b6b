"""The way from SLS names to results, for state.* functions and for the runner of chains."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.states.compiler.model import Compiled, High, Low, Row, RunHooks


def compile_sls(
    context: Context, mods: Union[str, Sequence[str]], saltenv: str = ""
) -> Compiled:
    """Return the run of some SLS files.

    Args:
        context: grains, pillar and files to render with.
        mods: dotted names, also separated by commas, also globs.
        saltenv: environment; the context's when empty.
    """
    raise NotImplementedError


def compile_highstate(context: Context) -> Compiled:
    """Return the run of everything that the top files assign to this minion."""
    raise NotImplementedError


def compile_top(context: Context) -> Dict[str, List[str]]:
    """Return the SLS names that the top files assign to this minion, by environment.

    Raises:
        TopError: a top file can't be rendered or is malformed.
    """
    raise NotImplementedError


def run(
    context: Context, low: Sequence[Low], hooks: Optional[RunHooks] = None
) -> Dict[str, Row]:
    """Run *low* (of a Compiled without errors); return the rows by key, in the order they ran."""
    raise NotImplementedError

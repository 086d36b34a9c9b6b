"""Failpoints: named places where a test can kill, delay or break the program.

`hit(name)` costs one comparison and does nothing, unless the process was started with both the
environment variable CATENA_FAILPOINTS and the setting `testing: true`. `core.failpoint_rules`,
which only such a process loads, lists the failpoints and the syntax of the variable.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from catena.core.failpoint_rules import Failpoints

VARIABLE = "CATENA_FAILPOINTS"
LOG_VARIABLE = "CATENA_FAILPOINT_LOG"

#: None in every process that was not started for a test. This is the program's only global
#: state, because a failure may have to be injected anywhere.
_armed: Optional[Failpoints] = None


def arm(testing: bool) -> None:
    """Arm what the environment variable asks for if *testing*; otherwise disarm everything.

    The `main` of every daemon calls it once; child processes inherit the decision.

    Raises:
        UsageError: the variable has a syntax error.
    """
    global _armed
    text = os.environ.get(VARIABLE, "")
    if not testing:
        os.environ.pop(VARIABLE, None)
        text = ""
    if not text:
        _armed = None
        return
    from catena.core.failpoint_rules import Failpoints, parse

    _armed = Failpoints(parse(text), os.environ.get(LOG_VARIABLE, ""))


def hit(name: str) -> None:
    """Reach the failpoint *name*, which does nothing unless it is armed.

    Raises:
        OSError: the failpoint is armed with an error.
    """
    if _armed is not None:
        _armed.hit(name)

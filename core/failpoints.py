"""Named places where a test stops, delays or breaks the program from outside.

`hit(name)` costs one comparison and does nothing, unless the process was started with both the
environment variable CATENA_FAILPOINTS and the setting `testing: true`. What the places are and
what the variable may say stands in `core.failpoint_rules`, which only such a process loads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from catena.core.failpoint_rules import Failpoints

VARIABLE = "CATENA_FAILPOINTS"
LOG_VARIABLE = "CATENA_FAILPOINT_LOG"

#: None in every process that was not started for a test. The one place of the program that is
#: global: a fault may have to happen anywhere.
_armed: Optional[Failpoints] = None


def arm(testing: bool) -> None:
    """Arm what the environment asks for, where the configuration allows it; else forget it.

    Called once by the `main` of every daemon; processes that it starts inherit what it decided.

    Raises:
        UsageError: the variable can't be read.
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
    """Pass the place *name*: nothing happens unless it is armed.

    Raises:
        OSError: that is what was asked for.
    """
    if _armed is not None:
        _armed.hit(name)

"""Regular expressions that are compiled when they are first used.

A module has several of them and a short command needs few: to compile all was a tenth of its time.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Union, cast


class _Later:
    def __init__(self, text: Any, flags: Union[int, re.RegexFlag]) -> None:
        self._made = (text, flags)

    def __getattr__(self, name: str) -> Any:
        text, flags = self._made
        # `re` keeps what it has compiled. The method stays here: this is asked for once.
        found = getattr(re.compile(text, flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: Union[int, re.RegexFlag] = 0) -> re.Pattern[AnyStr]:
    """Return what stands for `re.compile(text, flags)`, as far as its methods go."""
    return cast("re.Pattern[AnyStr]", _Later(text, flags))

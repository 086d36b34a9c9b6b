"""Regular expressions that are compiled at their first use.

A short command uses few of a module's patterns; compiling all took a tenth of its time.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Union, cast


class _Later:
    def __init__(self, text: Any, flags: Union[int, re.RegexFlag]) -> None:
        self._made = (text, flags)

    def __getattr__(self, name: str) -> Any:
        text, flags = self._made
        # `re` caches the compiled pattern. The bound method is stored on the instance, so this
        # runs once.
        found = getattr(re.compile(text, flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: Union[int, re.RegexFlag] = 0) -> re.Pattern[AnyStr]:
    """Return a lazy replacement for `re.compile(text, flags)`, which has its methods only."""
    return cast("re.Pattern[AnyStr]", _Later(text, flags))

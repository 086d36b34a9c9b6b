"""Values that would be commands or options if they reached a shell or a program."""

from __future__ import annotations

#: Attack row 2017-5200 and its kin.
INJECTIONS = [
    "$(touch X)",
    "`touch X`",
    "a;touch X",
    "a\ntouch X",
    "a\n",
    "-oProxyCommand=touch X",
    "-l",
    "%h",
    "a b",
    "a'b",
    'a"b',
    "a\\b",
    "a|b",
    "a&b",
    "a>b",
    "a\0b",
    "",
    "x" * 300,
    "../../etc",
]

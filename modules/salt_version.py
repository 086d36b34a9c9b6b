"""salt_version.*: compare named releases of Salt with the compatible one."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from catena.core.context import Context
from catena.core.plugins import function

#: The release of Salt with which this version is compatible.
RELEASE: Tuple[int, ...] = (3008,)

_NAMES = """hydrogen 2014.1; helium 2014.7; lithium 2015.5; beryllium 2015.8; boron 2016.3;
carbon 2016.11; nitrogen 2017.7; oxygen 2018.3; fluorine 2019.2; neon 3000; sodium 3001;
magnesium 3002; aluminium 3003; silicon 3004; phosphorus 3005; sulfur 3006; chlorine 3007;
argon 3008; potassium 3009; calcium 3010; scandium 3011; titanium 3012; vanadium 3013;
chromium 3014; manganese 3015; iron 3016; cobalt 3017; nickel 3018; copper 3019; zinc 3020"""
_RELEASES: Dict[str, str] = dict(
    (pair.split()[0], pair.split()[1]) for pair in _NAMES.replace("\n", " ").split(";")
)


def _order(name: str) -> Optional[Tuple[int, ...]]:
    found = _RELEASES.get(str(name).lower())
    return tuple(int(part) for part in found.split(".")) if found else None


@function(inline=True)
def get_release_number(context: Context, name: str) -> Optional[str]:
    """Return the number of a release by its name ("Sodium": "3001"); None for no such name."""
    return _RELEASES.get(str(name).lower())


@function(inline=True)
def equal(context: Context, name: str) -> bool:
    """Return whether trees run as under the release *name*; False for no such name."""
    return _order(name) == RELEASE


@function(inline=True)
def greater_than(context: Context, name: str) -> bool:
    """Return whether trees run as under a later release than *name*; False for no such name."""
    found = _order(name)
    return found is not None and found < RELEASE


@function(inline=True)
def less_than(context: Context, name: str) -> bool:
    """Return whether trees run as under an earlier release than *name*; False for no such name."""
    found = _order(name)
    return found is not None and found > RELEASE

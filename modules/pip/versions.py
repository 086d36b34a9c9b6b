"""Versions and version specifiers of Python packages, as PEP 440 defines them."""

from __future__ import annotations

import re
from typing import Any, Iterable, Optional, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass

#: Maximum characters of a version; longer texts are no versions.
_LENGTH = 200
_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|a|b|c|rc)[-_.]?(?P<pre_number>\d*))?"
    r"(?:-(?P<post_short>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\Z",
    re.IGNORECASE,
)
_PRE_NAMES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
#: Sorts before and after every other part of a version.
_FIRST: Tuple[Any, ...] = (-1,)
_LAST: Tuple[Any, ...] = (2,)


@dataclass(frozen=True)
class Specifier:
    """One condition on a version: an operator of PEP 440 and a version."""

    operator: str
    version: str

    def __str__(self) -> str:
        """Return the condition as pip reads it."""
        return f"{self.operator}{self.version}"


@dataclass(frozen=True)
class Version:
    """A parsed version."""

    epoch: int
    release: Tuple[int, ...]
    pre: Optional[Tuple[str, int]]
    post: Optional[int]
    dev: Optional[int]
    local: Tuple[Any, ...]

    def is_prerelease(self) -> bool:
        """Return whether this is an alpha, beta, candidate or development version."""
        return self.pre is not None or self.dev is not None

    def is_final(self) -> bool:
        """Return whether this is a plain release: no pre-release and no post-release."""
        return self.pre is None and self.post is None and self.dev is None

    def public(self) -> Tuple[Any, ...]:
        """Return the sorting key without the local part."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        if self.pre is not None:
            pre: Tuple[Any, ...] = (0, *self.pre)
        elif self.post is None and self.dev is not None:
            pre = _FIRST  # 1.0.dev1 is older than 1.0a1
        else:
            pre = _LAST
        post = -1 if self.post is None else self.post
        dev: Tuple[Any, ...] = _LAST if self.dev is None else (0, self.dev)
        return (self.epoch, release, pre, post, dev)

    def key(self) -> Tuple[Any, ...]:
        """Return the sorting key."""
        return (*self.public(), self.local)


def parse(text: str) -> Optional[Version]:
    """Return a version; None if *text* is none of PEP 440."""
    found = _VERSION.match(text.strip()) if len(text) <= _LENGTH else None
    if found is None:
        return None
    pre = (found["pre"] or "").lower()
    post: Optional[int] = None
    if found["post"] or found["post_short"]:
        post = int(found["post_short"] or found["post_number"] or 0)
    return Version(
        epoch=int(found["epoch"] or 0),
        release=tuple(int(part) for part in found["release"].split(".")),
        pre=(_PRE_NAMES.get(pre, pre), int(found["pre_number"] or 0)) if pre else None,
        post=post,
        dev=int(found["dev_number"] or 0) if found["dev"] else None,
        # Numbers are newer than words.
        local=tuple(
            (1, int(part)) if part.isdigit() else (0, part.lower())
            for part in re.split(r"[-_.]", found["local"] or "")
            if part
        ),
    )


def satisfies(version: str, specifiers: Iterable[Specifier]) -> bool:
    """Return whether an installed version meets every condition.

    A version that is not one of PEP 440 meets only conditions that name it exactly.
    """
    return all(_meets(version, one) for one in specifiers)


def _meets(text: str, specifier: Specifier) -> bool:
    operator, wanted = specifier.operator, specifier.version
    if operator == "===":
        return text.lower() == wanted.lower()
    have = parse(text)
    if wanted.endswith(".*"):
        found = have is not None and _begins_with(have, wanted[:-2])
        return found if operator == "==" else not found
    want = parse(wanted)
    if have is None or want is None:
        return (text == wanted) == (operator in ("==", "<=", ">=", "~="))
    if operator in ("==", "!="):
        # A condition without a local part accepts every local version.
        same = have.key() == want.key() if want.local else have.public() == want.public()
        return same if operator == "==" else not same
    return _ordered(have, operator, want)


def _ordered(have: Version, operator: str, want: Version) -> bool:
    left, right = have.public(), want.public()
    same_release = (have.epoch, _padded(have, 0)) == (want.epoch, _padded(want, 0))
    if operator == "~=":
        return left >= right and _begins_with(have, ".".join(map(str, want.release[:-1])), want)
    if operator == ">=":
        return left >= right
    if operator == "<=":
        return left <= right
    if operator == "<":
        # 2.0rc1 is not "less than 2.0", but less than 2.0rc2 and 2.0.post1.
        if have.is_prerelease() and same_release and want.is_final():
            return False
        return left < right
    # 2.0.post1 is not "greater than 2.0", but greater than 2.0rc1 and 2.0.post0.
    if have.post is not None and same_release and want.is_final():
        return False
    return left > right


def _padded(version: Version, length: int) -> Tuple[int, ...]:
    release = version.release
    while release and release[-1] == 0 and len(release) > length:
        release = release[:-1]
    return release + (0,) * (length - len(release))


def _begins_with(have: Version, prefix: str, base: Optional[Version] = None) -> bool:
    """Return whether a version begins with the numbers *prefix*, in the epoch of *base*."""
    want = parse(prefix)
    if want is None:
        return False
    epoch = base.epoch if base is not None else want.epoch
    length = len(want.release)
    return have.epoch == epoch and _padded(have, length)[:length] == want.release


def checked(operator: str, version: str, line: str) -> Specifier:
    """Return a condition.

    Raises:
        UsageError: PEP 440 has no such condition; *line* is the requirement that has it.
    """
    bare = version[:-2] if version.endswith(".*") and operator in ("==", "!=") else version
    found = parse(bare)
    if operator != "===" and found is None:
        raise UsageError(f"{version!r} in {line!r} is no version of a Python package")
    if operator == "~=" and found is not None and len(found.release) < 2:
        raise UsageError(f"'~={version}' in {line!r} needs two numbers, as in ~=1.4")
    return Specifier(operator, version)

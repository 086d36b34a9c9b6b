"""Typos of the compiler's keywords among the arguments of a state that accepts any argument."""

from __future__ import annotations

from functools import lru_cache
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
)

from catena.core.suggest import nearest
from catena.states.compiler.faults import at
from catena.states.compiler.model import KEYWORDS, REQUISITES, Low

#: Keywords that every state accepts, whatever its function accepts.
WORDS = KEYWORDS | {"name", "names", "order"}
#: Minimum similarity (0 to 1) of a mistyped argument and the one that was meant.
_LIKENESS = 0.8
#: Keywords that are compared by similarity too: a mistyped condition runs a state to be skipped.
_GUARDS = ("onlyif", "unless")
#: Requisites that are compared by similarity; `use` is too short, because `user` resembles it.
_LONG_REQUISITES = tuple(word for word in REQUISITES if word != "use")


def slips(low: Low, accepts: FrozenSet[str], is_known: Callable[[str], bool]) -> Iterator[str]:
    """Yield a warning for each extra argument whose name resembles a known one.

    Args:
        low: a state whose function accepts any argument.
        accepts: the parameters of that function.
        is_known: returns whether an extra argument needs no warning.
    """
    for key, value in low.args.items():
        if key in accepts:
            continue
        meant = _meant(low, key, value, accepts)
        if meant and not is_known(key):
            yield (
                f"{low.state}.{low.fun} takes no argument '{key}'; did you mean '{meant}'?"
                f"{at(low.line_of(key))}"
            )


def _meant(low: Low, key: str, value: Any, accepts: FrozenSet[str]) -> Optional[str]:
    """Return the argument that *key* probably means, or None."""
    if low.name == low.id and _is_slip("name", key.lower()):
        # Without `name`, the state acts on its id, which probably names something else.
        return "name"
    found = _slip(key, accepts, isinstance(value, list))
    return found if found and _fits(found, value) else None


def _fits(word: str, value: Any) -> bool:
    """Return whether *value* can be that of a keyword; otherwise *word* is an argument.

    The argument `create` of `file.managed` is a truth value, and `creates` lists paths.
    """
    if word == "use":
        return isinstance(value, list)
    return word != "creates" or isinstance(value, (str, list))


@lru_cache(maxsize=1024)  # many states of a run have the same arguments
def _slip(key: str, accepts: FrozenSet[str], is_list: bool) -> Optional[str]:
    # `m_name` is an argument of module.run and no typo of `name`.
    if _is_slip("names", key.lower()):
        return "names"
    exact = _keyword_slips().get(_squeezed(key))
    if exact is not None:
        return nearest(key, exact, 0)
    near = {*accepts, *_GUARDS, *(_LONG_REQUISITES if is_list else ())} - {"name"}
    return nearest(key, sorted(near), _LIKENESS)


def _squeezed(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


@lru_cache(maxsize=1)
def _keyword_slips() -> Mapping[str, Sequence[str]]:
    """Return the keywords that each typo may mean; typos are written without underscores."""
    found: Dict[str, List[str]] = {}
    for word in sorted(KEYWORDS | {"order"}):
        for typo in (_squeezed(word), *_typos(_squeezed(word))):
            found.setdefault(typo, []).append(word)
    return found


def _is_slip(word: str, key: str) -> bool:
    return key == word or key in _typos(word)


@lru_cache(maxsize=64)  # there are about forty keywords
def _typos(word: str) -> Collection[str]:
    """Return *word* with one letter missing, swapped, added or replaced by one of its own.

    Other letters do not count, because `uname` and `same` are no typos of `name`.
    """
    cuts = range(len(word) + 1)
    letters = sorted(set(word))
    found = {word[:at] + word[at + 1 :] for at in cuts[:-1]}
    found |= {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in cuts[:-2]}
    found |= {word[:at] + one + word[at + 1 :] for at in cuts[:-1] for one in letters}
    found |= {word[:at] + one + word[at:] for at in cuts for one in letters}
    return found - {word, "name"}


def candidates(accepts: Iterable[str]) -> Iterable[str]:
    """Return the names that a mistyped argument may mean, for a function without `**kwargs`."""
    return sorted({*accepts, *WORDS})

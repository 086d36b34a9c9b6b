"""How much of a state run is shown (a separate module, since few answers are state runs)."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple


class StateStyle(NamedTuple):
    """How much of a state run is shown; Salt's `state_output` and `state_verbose`."""

    #: "full"; "terse": a line per state; "mixed": failures in full; "changes": failures and
    #: changes in full. With the suffix "_id", a line shows the state's id. "filter" is shown as
    #: "full".
    output: str = "full"
    #: False: states that succeeded without changes are only counted.
    verbose: bool = True

    def in_full(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* is shown as a block."""
        kind = self.output.partition("_")[0]
        if kind in {"full", "filter"} or state.get("result") is False:
            return True
        return kind == "changes" and bool(state.get("changes"))

    @property
    def by_id(self) -> bool:
        """Return whether a state on one line is shown by its id."""
        return self.output.endswith("_id")

    def shows(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* is shown at all."""
        return self.verbose or state.get("result") is not True or bool(state.get("changes"))


#: Salt's values; a copy of those in core.config.minion, whose import takes 7 ms.
OUTPUTS = (
    "changes", "changes_id", "filter", "filter_id", "full", "full_id", "mixed", "mixed_id",
    "terse", "terse_id",
)  # fmt: skip
FULL = StateStyle()

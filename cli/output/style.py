"""How much of a state run is shown (apart, since most answers are none)."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple


class StateStyle(NamedTuple):
    """How much of a state run is shown; Salt's `state_output` and `state_verbose`."""

    #: "full"; "terse": a line per state; "mixed": failures in full; "changes": those and changes.
    #: With "_id" behind it, a line names the state by its id. "filter" is shown as "full".
    output: str = "full"
    #: False: states that are as they should be, and changed nothing, are only counted.
    verbose: bool = True

    def in_full(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* gets a block of its own."""
        kind = self.output.partition("_")[0]
        if kind in {"full", "filter"} or state.get("result") is False:
            return True
        return kind == "changes" and bool(state.get("changes"))

    @property
    def by_id(self) -> bool:
        """Return whether a state on one line is named by its id."""
        return self.output.endswith("_id")

    def shows(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* is shown at all."""
        return self.verbose or state.get("result") is not True or bool(state.get("changes"))


#: Salt's values; as in core.config.minion, which costs 7 ms to import.
OUTPUTS = (
    "changes", "changes_id", "filter", "filter_id", "full", "full_id", "mixed", "mixed_id",
    "terse", "terse_id",
)  # fmt: skip
FULL = StateStyle()

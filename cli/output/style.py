"""How much of a state run is shown (apart, since most answers are none)."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple


class StateStyle(NamedTuple):
    """How much of a state run is shown; Salt's `state_output` and `state_verbose`."""

    #: "full"; "terse": a line per state; "mixed": failures in full; "changes": those and changes.
    output: str = "full"
    #: False: states that are as they should be, and changed nothing, are only counted.
    verbose: bool = True

    def in_full(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* gets a block of its own."""
        if self.output == "full" or state.get("result") is False:
            return True
        return self.output == "changes" and bool(state.get("changes"))

    def shows(self, state: Mapping[str, Any]) -> bool:
        """Return whether *state* is shown at all."""
        return self.verbose or state.get("result") is not True or bool(state.get("changes"))


OUTPUTS = ("changes", "full", "mixed", "terse")
FULL = StateStyle()

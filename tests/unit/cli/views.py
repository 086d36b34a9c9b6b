"""Views of chains, as the master sends them."""

from __future__ import annotations

from catena.client.replies.chains import ChainView


def chain_view() -> ChainView:
    """Return a draft without actions."""
    return ChainView(
        id=7, label="patch", user="anna", state="draft", reason="", epoch=1, created=0.0, due=0.0,
        ended=0.0, approved_by="", dispatched=False, archived=False, jids=(), minions=(),
        history=(),
    )  # fmt: skip

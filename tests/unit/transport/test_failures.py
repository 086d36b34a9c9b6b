from __future__ import annotations

import pytest

from catena.core.errors import CatenaError, PeerError, TryLaterError, UsageError
from catena.core.ids import BadNameError
from catena.transport import wire
from catena.transport.failures import error_of, failure_of
from catena.transport.messages import Failure


def test_error_keeps_its_text_and_exit_code_as_a_failure() -> None:
    for error in (TryLaterError("busy"), UsageError("what?"), CatenaError()):
        back = error_of(failure_of(error))
        assert type(back) is type(error)
        assert (str(back), back.exit_code) == (str(error), error.exit_code)


def test_error_of_an_uncommon_class_is_sent_as_its_base_class() -> None:
    assert failure_of(BadNameError("'/' is no id")) == Failure("UsageError", "'/' is no id")
    assert failure_of(wire.BodyDepthError()).code == "PeerError"
    assert isinstance(error_of(failure_of(wire.BodyDepthError())), PeerError)


@pytest.mark.parametrize("code", ["", "SystemExit", "getdoc", "__name__", "ClassVar"])
def test_failure_with_an_unknown_code_becomes_a_plain_error(code: str) -> None:
    assert type(error_of(Failure(code, "x"))) is CatenaError


@pytest.mark.parametrize("text", ["x" * 9000, "ä" * 9000, "\udce9" * 9000])
def test_failure_with_a_long_text_fits_every_socket(text: str) -> None:
    failure = failure_of(CatenaError(text))
    frame = wire.pack(failure)
    for socket, receiver in (("enrol", "minion"), ("control", "minion"), ("local", "client")):
        wire.check_outgoing(frame, socket=socket, receiver=receiver)
        assert wire.unpack(frame, socket=socket, receiver=receiver).message == failure

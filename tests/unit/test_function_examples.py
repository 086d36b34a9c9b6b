"""The examples of the reference pages of functions are run: up to the first change of the host."""

from __future__ import annotations

import socket
import subprocess
from typing import Any, NoReturn

import pytest

from catena.cli.arguments import split
from catena.core.config.minion import MinionSettings
from catena.core.context import Context
from catena.core.dry_run import refusing_changes
from catena.core.errors import CatenaError, NotFoundError, UsageError
from catena.core.job import JobSpec
from catena.fileserver.roots import RootsClient
from catena.runtime.host import AgentHome
from catena.runtime.session import execution_registry, local_session
from tests.unit.function_examples import EXACT, example

REGISTRY = execution_registry()
#: Errors that a wrong argument causes.
_MISTAKES = ("unknown argument", "missing argument", "takes", "required argument")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("examples")
    for name in ("conf", "cache", "roots"):
        (folder / name).mkdir(mode=0o700)
    for name, text in {"web/init.sls": "example:\n  test.nop: []\n", "top.sls": "{}"}.items():
        path = folder / "roots" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    home = AgentHome(MinionSettings(), "web1", "m1", folder / "conf", folder / "cache",
                     folder / "pki", grains={"id": "web1", "os_family": "Debian"})  # fmt: skip
    spec = JobSpec("20260101000000000000", "test.ping", (), {})
    files = RootsClient({"base": [folder / "roots"]})
    return local_session(home, files, lambda *_: ({"colour": "blue"}, ()), spec).context


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no example start a command or reach the network."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError("not in tests")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_every_given_example_is_of_a_function() -> None:
    assert EXACT.keys() <= set(REGISTRY.names())


@pytest.mark.parametrize("name", REGISTRY.names())
def test_example_is_accepted(name: str, context: Context) -> None:
    args, kwargs = split(example(REGISTRY[name]))
    with refusing_changes((str(context.host.cache_dir),), strict=True):
        try:
            context.with_(test=True).functions[name].call(context, *args, **kwargs)
        except (NotFoundError, OSError):
            return  # Neither this host nor the tree has what the example names.
        except UsageError as error:
            # An example made from the names of arguments may lack one that is needed together.
            if name in EXACT or "argument" in str(error):
                raise
        except CatenaError as error:
            assert not any(word in str(error) for word in _MISTAKES), error

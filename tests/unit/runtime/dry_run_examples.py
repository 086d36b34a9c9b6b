"""Calls of state functions that test_dry_run.py makes in test mode: one example, and many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """One call; `{s}` in a text is the sandbox."""

    fun: str
    name: str = "{s}/new"
    #: The state would change something: test mode answers None, and the guard has to refuse.
    changes: bool = True
    args: Mapping[str, Any] = field(default_factory=dict)


def does(fun: str, name: str = "{s}/new", /, **args: Any) -> Example:
    return Example(fun, name, True, args)


def looks(fun: str, name: str = "{s}/file", /, **args: Any) -> Example:
    return Example(fun, name, False, args)


#: States of package managers of languages, of web servers and of Supervisor.
LANGUAGE_EXAMPLES = (
    does("gem.installed", "absent"),
    does("gem.removed", "present"),
    does("gem.sources_add", "https://new.example.org/"),
    does("gem.sources_remove", "https://old.example.org/"),
    does("http.query", "http://127.0.0.1:1/", status=200),
    does("http.wait_for_successful_query", "http://127.0.0.1:1/", status=200, wait_for=0),
    does("loop.until", "file.touch", m_args=["{s}/new"], condition="True"),
    does("loop.until_no_eval", "file.touch", expected=True, args=["{s}/new"]),
    does("npm.installed", "absent"),
    does("npm.removed", "present"),
    does("npm.bootstrap", "{s}/folder"),
    does("pip.installed", "absent"),
    does("pip.installed", requirements="{s}/file"),
    does("pip.installed", editable="{s}/folder"),
    does("pip.removed", "present"),
    does("pip.uptodate", "all"),
    does("supervisord.running", "down"),
    does("supervisord.dead", "up"),
    does("supervisord.mod_watch", "up", sfun="running"),
    does("virtualenv.managed", "{s}/new"),
    does("virtualenv.manage", "{s}/new"),
)  # fmt: skip

#: What the functions return by which these states look at the host.
LANGUAGE_ANSWERS: dict[str, Callable[..., Any]] = {
    "gem.list": lambda context, prefix, **kwargs: {"present": ["1.0"]},
    "gem.sources_list": lambda context, **kwargs: ["https://old.example.org/"],
    "supervisord.status": lambda context, **kwargs: {
        "up": {"state": "RUNNING"},
        "down": {"state": "STOPPED"},
    },
    "npm.planned": lambda context, dir, runas=None: {"added": 1},
    "pip.freeze": lambda context, *args, **kwargs: ["present==1"],
    "pip.list": lambda context, **kwargs: {"present": "1"},
    "pip.list_upgrades": lambda context, **kwargs: {"present": "2"},
}

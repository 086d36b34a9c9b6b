"""test.*: check whether a minion answers, and which arguments it receives."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Tuple

import catena
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function

#: Maximum steps of test.fib and test.collatz, so that no argument blocks a processor.
_LONGEST_WALK = 1_000_000


@function(inline=True)
def ping(context: Context) -> bool:
    """Return True, to check that the minion runs and its answers arrive."""
    return True


@function(name="true", inline=True)
def true_(context: Context) -> bool:
    """Return True."""
    return True


@function(name="false", inline=True)
def false_(context: Context) -> bool:
    """Return False."""
    return False


@function(inline=True)
def echo(context: Context, text: Any) -> Any:
    """Return *text*."""
    return text


@function(inline=True)
def outputter(context: Context, data: Any) -> Any:
    """Return *data*, to test outputters."""
    return data


@function(inline=True)
def arg(context: Context, /, *args: Any, **kwargs: Any) -> Dict[str, Any]:
    """Return the arguments as they arrived: {"args": [...], "kwargs": {...}}."""
    return {"args": list(args), "kwargs": kwargs}


@function(inline=True)
def arg_clean(context: Context, /, *args: Any, **kwargs: Any) -> Dict[str, Any]:
    """Return the arguments without those that begin with two underscores."""
    return {
        "args": list(args),
        "kwargs": {key: value for key, value in kwargs.items() if not key.startswith("__")},
    }


@function(inline=True)
def arg_type(context: Context, /, *args: Any, **kwargs: Any) -> Dict[str, Any]:
    """Return the type of each argument, as Python prints it."""
    return {
        "args": [str(type(value)) for value in args],
        "kwargs": {key: str(type(value)) for key, value in kwargs.items()},
    }


@function(inline=True)
def arg_repr(context: Context, /, *args: Any, **kwargs: Any) -> Dict[str, str]:
    """Return the arguments as Python's repr."""
    return {"args": repr(args), "kwargs": repr(kwargs)}


@function(inline=True)
def kwarg(context: Context, /, **kwargs: Any) -> Dict[str, Any]:
    """Return the keyword arguments."""
    return kwargs


@function(inline=True)
def version(context: Context) -> str:
    """Return the version of catena on the minion."""
    return str(catena.__version__)


@function(inline=True)
def versions_information(context: Context) -> Dict[str, Dict[str, str]]:
    """Return versions of catena, Python and the system, by group and name."""
    import platform

    return {
        "Catena Version": {"Catena": str(catena.__version__)},
        "Dependency Versions": {"Python": platform.python_version()},
        "System Versions": {
            "machine": platform.machine(),
            "release": platform.release(),
            "system": platform.system(),
        },
    }


@function(inline=True)
def versions_report(context: Context) -> str:
    """Return the versions as lines of text."""
    lines = []
    for group, members in versions_information(context).items():
        lines.append(f"{group}:")
        lines.extend(f"  {name}: {value}" for name, value in members.items())
    return "\n".join(lines)


@function(reads=True)
def sleep(context: Context, length: float) -> bool:
    """Wait *length* seconds, then return True."""
    time.sleep(float(length))
    return True


@function(reads=True)
def rand_sleep(context: Context, max: int = 60) -> bool:
    """Wait a random time of at most *max* seconds, then return True."""
    import random

    time.sleep(random.uniform(0, float(max)))
    return True


@function(reads=True)
def fib(context: Context, num: int) -> Tuple[int, float]:
    """Return the Fibonacci number at position *num* and the seconds it took to find.

    Raises:
        UsageError: *num* is negative or more than a million.
    """
    position = int(num)
    if not 0 <= position <= _LONGEST_WALK:
        raise UsageError(f"test.fib takes 0 to {_LONGEST_WALK}, not {position}")
    start = time.monotonic()
    current, following = 0, 1
    for _ in range(position):
        current, following = following, current + following
    return current, time.monotonic() - start


@function(reads=True)
def collatz(context: Context, start: int) -> Tuple[List[int], float]:
    """Return the Collatz sequence from *start* down to 1 and the seconds it took.

    Raises:
        UsageError: *start* is not positive, or its sequence is longer than a million steps.
    """
    number, begin = int(start), time.monotonic()
    steps: List[int] = []
    if number < 1:
        raise UsageError(f"test.collatz takes a positive number, not {number}")
    while number != 1 and len(steps) < _LONGEST_WALK:
        steps.append(number)
        number = number // 2 if number % 2 == 0 else number * 3 + 1
    if number != 1:
        raise UsageError(f"the sequence is longer than {_LONGEST_WALK} steps")
    return [*steps, 1], time.monotonic() - begin


@function(inline=True)
def retcode(context: Context, code: int = 42) -> bool:
    """Return True and set the job's exit code to *code*."""
    context.scratch["retcode"] = int(code)
    return True


@function(inline=True)
def get_opts(context: Context) -> Dict[str, Any]:
    """Return the minion's options."""
    return dict(context.opts)


@function(inline=True)
def conf_test(context: Context) -> Any:
    """Return the option `test.foo`, to see whether a configuration is read."""
    return context.opts.get("test.foo")


@function(inline=True)
def provider(context: Context, module: str) -> str:
    """Return the Python module that provides the functions named `module.*`, or ""."""
    for plugin in context.functions.module(module).values():
        return str(plugin.call.__module__)
    return ""


@function(reads=True)
def providers(context: Context) -> Dict[str, str]:
    """Return the Python module of every module name."""
    return {name: provider(context, name) for name in context.functions.prefixes()}


@function(reads=True)
def module_report(context: Context) -> Dict[str, List[str]]:
    """Return the names of everything that can be called."""
    return {
        "functions": context.functions.names(),
        "modules": context.functions.prefixes(),
        "states": context.states.names(),
    }


@function(inline=True)
def cross_test(context: Context, func: str, args: Any = None) -> Any:
    """Call another function through the registry and return what it returns."""
    return context.call(func, *(args or []))


@function(inline=True)
def stack(context: Context) -> str:
    """Return the stack of the call."""
    import traceback

    return "".join(traceback.format_stack(sys._getframe()))


@function(name="exception", inline=True)
def exception_(context: Context, message: str = "Test Exception") -> bool:
    """Raise an error with *message*."""
    raise CommandExecutionError(message)


@function(inline=True)
def assertion(context: Context, assertion: Any) -> None:
    """Return if *assertion* is true.

    Raises:
        CommandExecutionError: it is not.
    """
    if not assertion:
        raise CommandExecutionError(f"not true: {assertion!r}")


@function(name="try", reads=True)
def try_(
    context: Context, /, module: str, return_try_exception: bool = False, **kwargs: Any
) -> Any:
    """Call the function named *module*; on an error return None, or the error if asked."""
    try:
        return context.call(module, **kwargs)
    except Exception as problem:  # noqa: BLE001  # the function exists to show any error
        return str(problem) if return_try_exception else None


@function(inline=True)
def rand_str(context: Context, size: int = 32) -> str:
    """Return *size* random letters and digits."""
    import secrets
    import string

    alphabet = string.ascii_letters + string.digits
    return "".join(secrets.choice(alphabet) for _ in range(min(int(size), _LONGEST_WALK)))


@function(inline=True)
def random_hash(context: Context, size: int = 9999999999, hash_type: str = "sha256") -> str:
    """Return the hash of a random number below *size*.

    Raises:
        UsageError: *hash_type* is not known.
    """
    import hashlib
    import secrets

    if hash_type not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {hash_type!r}")
    return hashlib.new(hash_type, str(secrets.randbelow(int(size))).encode()).hexdigest()

"""Stand-ins for `salt.ext.six`, which older custom files import."""

from __future__ import annotations

import builtins
import collections.abc
import configparser
import functools
import html
import http.client
import importlib
import io
import itertools
import operator
import pickle
import queue
import shlex
import sys
import urllib.error
import urllib.parse
import urllib.request
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, Mapping, Tuple


def _keys(data: Mapping[Any, Any]) -> Iterator[Any]:
    return iter(data.keys())


def _values(data: Mapping[Any, Any]) -> Iterator[Any]:
    return iter(data.values())


def _items(data: Mapping[Any, Any]) -> Iterator[Tuple[Any, Any]]:
    return iter(data.items())


def _same(value: Any) -> Any:
    return value


def _reraise(kind: Any, value: Any, trace: Any = None) -> None:
    raise (value if value is not None else kind()).with_traceback(trace)


def _with_metaclass(meta: Any, *bases: type) -> Any:
    return meta("temporary_class", bases or (object,), {})


def _add_metaclass(meta: Any) -> Callable[[type], Any]:
    def decorate(cls: type) -> Any:
        content = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
        return meta(cls.__name__, cls.__bases__, content)

    return decorate


def _ensure_text(value: Any, encoding: str = "utf-8", errors: str = "strict") -> str:
    return value.decode(encoding, errors) if isinstance(value, bytes) else str(value)


def _ensure_bytes(value: Any, encoding: str = "utf-8", errors: str = "strict") -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(encoding, errors)


def _six() -> Dict[str, Any]:
    return {
        "PY2": False,
        "PY3": True,
        "PY34": True,
        "MAXSIZE": sys.maxsize,
        "string_types": (str,),
        "text_type": str,
        "binary_type": bytes,
        "integer_types": (int,),
        "class_types": (type,),
        "iterkeys": _keys,
        "itervalues": _values,
        "iteritems": _items,
        "viewkeys": lambda data: data.keys(),
        "viewvalues": lambda data: data.values(),
        "viewitems": lambda data: data.items(),
        "next": next,
        "callable": callable,
        "unichr": chr,
        "u": _same,
        "b": lambda text: text.encode("latin-1"),
        "StringIO": io.StringIO,
        "BytesIO": io.BytesIO,
        "reraise": _reraise,
        "with_metaclass": _with_metaclass,
        "add_metaclass": _add_metaclass,
        "python_2_unicode_compatible": _same,
        "ensure_str": _ensure_text,
        "ensure_text": _ensure_text,
        "ensure_binary": _ensure_bytes,
        "get_method_self": operator.attrgetter("__self__"),
        "get_function_code": operator.attrgetter("__code__"),
        "get_function_defaults": operator.attrgetter("__defaults__"),
        "wraps": functools.wraps,
    }


def _moves() -> Dict[str, Any]:
    return {
        "range": range,
        "xrange": range,
        "zip": zip,
        "map": map,
        "filter": filter,
        "input": input,
        "intern": sys.intern,
        "reduce": functools.reduce,
        "reload_module": importlib.reload,
        "shlex_quote": shlex.quote,
        "zip_longest": itertools.zip_longest,
        "filterfalse": itertools.filterfalse,
        "StringIO": io.StringIO,
        "cStringIO": io.StringIO,
        "builtins": builtins,
        "collections_abc": collections.abc,
        "configparser": configparser,
        "cPickle": pickle,
        "html_parser": html,
        "http_client": http.client,
        "queue": queue,
        "urllib_error": urllib.error,
        "urllib_parse": urllib.parse,
    }


def _public(module: ModuleType) -> Callable[[], Dict[str, Any]]:
    def names() -> Dict[str, Any]:
        return {name: value for name, value in vars(module).items() if name[0] != "_"}

    return names


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Dict[str, Any]]] = {
    "salt.ext.six": _six,
    "salt.ext.six.moves": _moves,
    "salt.ext.six.moves.urllib": dict,
    "salt.ext.six.moves.urllib.error": _public(urllib.error),
    "salt.ext.six.moves.urllib.parse": _public(urllib.parse),
    "salt.ext.six.moves.urllib.request": _public(urllib.request),
}

"""Jinja as Salt's trees use it: sandboxed, strict about undefined names, with a map of lines.

What a template sees is Salt's: `salt`, `grains`, `pillar`, `opts`, `saltenv`, `env`, `sls`,
`slspath`, `tpldir`, … Templates are imported from the file roots; a path that begins with `./` or
`../` is relative to the template that names it. Imports without context still see those names, as
in Salt (recorded case `jinja/map_context`), because they are handed over as globals.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import jinja2
from jinja2 import nodes
from jinja2.bccache import Bucket, BytecodeCache, FileSystemBytecodeCache
from jinja2.compiler import CodeGenerator, Frame
from jinja2.sandbox import SandboxedEnvironment

from catena.core.context import Context, FileClient
from catena.core.errors import LimitError
from catena.core.files import UnsafeFolderError, private_folder
from catena.core.suggest import nearest
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls, FunctionModule, full_name
from catena.renderers.filters import FILTERS, GLOBALS, TESTS
from catena.renderers.filters_serial import printable
from catena.renderers.jinja_options import Options, configured, headed
from catena.renderers.jinja_tags import DataTags, Profile
from catena.renderers.source import (
    LineMap,
    Source,
    SourceError,
    TemplateFaultError,
    TemplateSyntaxFaultError,
    UndefinedNameError,
    plain,
    sls_variables,
    template_variables,
)

MAX_OUTPUT = 64 * 1024 * 1024
#: Part of the name of the bytecode folder: grows whenever `_LineCodeGenerator` writes other code.
_CODE_VERSION = 1
_MARKS = re.compile(r"\{[{%#]|\A\n?#jinja2:")
_LINE_END = re.compile(r"\r\n?")
_RELATIVE = ("./", "../")
_SCHEME = "salt://"
_NO_FUNCTION = re.compile(r"FunctionCalls object' has no attribute '([^']+)'")
_UNDEFINED = re.compile(r"'(\w+)' is undefined")

#: Name of a template and a line in it.
_Step = Tuple[str, int]


@dataclass(frozen=True)
class JinjaText:
    """What a template rendered to."""

    text: str
    #: Source line of every rendered line.
    lines: LineMap

    def without_first_line(self) -> JinjaText:
        """Return it without its first line, which is empty."""
        return JinjaText(self.text[1:], LineMap(self.lines.lines[1:]))


def render(
    context: Context, source: Source, variables: Mapping[str, Any], sls_names: bool = True
) -> JinjaText:
    """Return *source* rendered with Jinja.

    Args:
        context: grains, pillar, opts, functions and files that the template may use.
        source: the template.
        variables: more names; they win over the built-in ones.
        sls_names: give it sls, slspath, tpldir, …; False for managed files (recorded case
            `slsvars/template_vars`: those do not see them).

    Raises:
        SourceError: the template is wrong or something that it does fails.
        LimitError: the text grows beyond 64 Mi characters.
    """
    options = configured(context.opts, bool(source.sls))
    if not (options or _MARKS.search(source.text)):
        # Plain text, as most chunks of chains are: it needs no template, and no bytecode kept.
        return JinjaText(_LINE_END.sub("\n", source.text), LineMap())
    told = headed(source.text, options)
    environment = environment_for(context, source.saltenv, told.options)
    names = _names(context, source, sls_names)
    names.update(variables)
    with environment.seeing(names):
        made = _rendered(environment, replace(source, text=told.text), names)
    return made.without_first_line() if told.leading else made


def _rendered(environment: Environment, source: Source, names: Dict[str, Any]) -> JinjaText:
    template = environment.template(source, names)
    # Salt renders without the last line end and puts it back, so that a trimming end tag can't
    # eat it.
    end = "\n" if source.text.endswith(("\n", "\r")) else ""
    try:
        return _collect(template, names, source, end)
    except LimitError:
        raise
    except Exception as error:
        # Whatever a function that the template calls may raise; it goes on with its place.
        raise _explain(error, environment, source, names) from error


def environment_for(context: Context, saltenv: str, options: Options = ()) -> Environment:
    """Return the environment of this job process for *saltenv*, made on first use."""
    key = f"catena.renderers.jinja {saltenv} {options}"
    kept: Optional[Tuple[FileClient, Environment]] = context.scratch.get(key)
    if kept is None or kept[0] is not context.files:
        cache = _bytecode_cache(context, options)
        kept = (context.files, Environment(context.files, saltenv, cache, options))
        context.scratch[key] = kept
    return kept[1]


class _Undefined(jinja2.StrictUndefined):
    """Names the whole function where a module of `salt` lacks one."""

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, FunctionModule):
            full = full_name(self._undefined_obj, str(self._undefined_name))
            return f"'FunctionCalls object' has no attribute '{full}'"
        return super()._undefined_message


class _LineCodeGenerator(CodeGenerator):
    """Notes the template line of every piece of output, constants included.

    Jinja notes lines for expressions only and joins constants with their neighbours, so that a
    line of plain text could not be traced back.
    """

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        for child in node.nodes:
            self.newline(child)
            super().visit_Output(nodes.Output([child], lineno=child.lineno), frame)


class _Loader(jinja2.BaseLoader):
    """Templates from the file roots."""

    def __init__(self, files: FileClient, saltenv: str) -> None:
        self._files = files
        self._saltenv = saltenv

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> Tuple[str, str, Callable[[], bool]]:
        """Return text, path and a check that the file is still the same."""
        path = template[len(_SCHEME) :] if template.startswith(_SCHEME) else template
        found = self._files.fetch(path, self._saltenv)
        if found is None:
            raise jinja2.TemplateNotFound(template)
        stamp = found.stat().st_mtime_ns
        text = found.read_text(encoding="utf-8")

        def same() -> bool:
            now = self._files.fetch(path, self._saltenv)
            return now == found and now is not None and now.stat().st_mtime_ns == stamp

        return text, str(found), same


class Environment(SandboxedEnvironment):
    """Jinja with Salt's filters, tests and tags, loading from one file client."""

    code_generator_class = _LineCodeGenerator

    def __init__(
        self,
        files: FileClient,
        saltenv: str,
        cache: Optional[BytecodeCache] = None,
        options: Options = (),
    ) -> None:
        super().__init__(
            **dict(options),
            undefined=_Undefined,
            loader=_Loader(files, saltenv),
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", DataTags, Profile],
            bytecode_cache=cache,
            finalize=printable,
        )
        self.filters.update(FILTERS)
        self.tests.update(TESTS)
        self.globals.update(GLOBALS)
        self.globals.pop("lipsum", None)
        self._names: Dict[str, Any] = {}

    @contextmanager
    def seeing(self, names: Dict[str, Any]) -> Iterator[None]:
        """Let every template that is loaded meanwhile see *names*, however deep it is imported.

        A function that a template calls may render another one with this environment.
        """
        before = self._names
        self._names = names
        try:
            yield
        finally:
            self._names = before

    def get_template(
        self,
        name: Union[str, jinja2.Template],
        parent: Optional[str] = None,
        globals: Optional[MutableMapping[str, Any]] = None,
    ) -> jinja2.Template:
        """Return a template of the file roots, which sees the names of this rendering."""
        # Jinja hands the names on to the first import only, and keeps what that rendered to.
        template = super().get_template(name, parent, globals)
        if getattr(template, "catena_names", None) is not self._names:
            template.catena_names = self._names  # type: ignore[attr-defined]  # ours
            # Imported without context a template finds its own place, not its importer's.
            template.globals.update({**self._names, **template_variables(str(template.name))})
            template._module = None
        return template

    def join_path(self, template: str, parent: str) -> str:
        """Return the path of *template*, as named inside *parent*."""
        if not template.startswith(_RELATIVE):
            return template
        parts = parent.split("/")[:-1]
        for part in template.split("/"):
            if part == "..":
                if not parts:
                    raise jinja2.TemplateNotFound(template, f"{template} leaves the file roots")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return "/".join(parts)

    def template(self, source: Source, names: Dict[str, Any]) -> jinja2.Template:
        """Return *source* compiled, from the bytecode cache where it is there."""
        name = source.path or source.name
        try:
            return self._compiled(source, name, names)
        except jinja2.TemplateSyntaxError as error:
            raise _syntax(error, self, source) from None

    def _compiled(self, source: Source, name: str, names: Dict[str, Any]) -> jinja2.Template:
        bucket: Optional[Bucket] = None
        if self.bytecode_cache is not None:
            bucket = self.bytecode_cache.get_bucket(self, name, source.name, source.text)
        code = bucket.code if bucket is not None else None
        if code is None:
            code = self.compile(source.text, name, source.name)
            if bucket is not None and self.bytecode_cache is not None:
                bucket.code = code
                self.bytecode_cache.set_bucket(bucket)
        return self.template_class.from_code(self, code, self.make_globals(names))


def _bytecode_cache(context: Context, options: Options) -> Optional[BytecodeCache]:
    """Return the cache of templates compiled with *options*.

    None where there is no private folder for it.

    Bytecode is code: who may write it may run anything as this user.
    """
    try:
        top = private_folder(context.host.cache_dir)
        # The same text means something else under other options.
        kind = f"-{zlib.crc32(repr(options).encode()):08x}" if options else ""
        return FileSystemBytecodeCache(str(private_folder(top / f"jinja-{_CODE_VERSION}{kind}")))
    except (OSError, UnsafeFolderError):
        return None


def _names(context: Context, source: Source, sls_names: bool) -> Dict[str, Any]:
    names: Dict[str, Any] = {
        "salt": FunctionCalls(context),
        "grains": plain(context.grains),
        "pillar": plain(context.pillar),
        "opts": plain(context.opts),
        "saltenv": source.saltenv,
        "env": source.saltenv,
    }
    if sls_names:
        names.update(sls_variables(source))
    return names


def _collect(
    template: jinja2.Template, names: Dict[str, Any], source: Source, end: str
) -> JinjaText:
    """Run the template piece by piece, noting the line of the template for each."""
    pieces: List[str] = []
    lines = _LineNotes(source.text.splitlines())
    size = 0
    # Jinja parses this table anew on every look.
    table = sorted((code, line) for line, code in template.debug_info)
    starts = [code for code, _ in table]
    generator: Any = template.root_render_func(template.new_context(names))
    for piece in generator:
        found = bisect_right(starts, generator.gi_frame.f_lineno)
        line = table[found - 1][1] if found else 1
        pieces.append(piece)
        size += len(piece)
        if size > MAX_OUTPUT:
            raise LimitError(f"{source.name}: renders to more than {MAX_OUTPUT} characters")
        lines.add(piece, line)
    return JinjaText("".join(pieces) + end, LineMap(tuple(lines.found)))


class _LineNotes:
    """Collects the source line of every rendered line."""

    def __init__(self, written: List[str]) -> None:
        self._written = written
        self._blank = True
        self.found: List[int] = [1]

    def add(self, piece: str, line: int) -> None:
        """Note that *piece* came from what begins in source line *line*.

        A constant runs on through the lines of the source; the value of an expression stays on
        the line of its expression.
        """
        for offset, part in enumerate(piece.split("\n")):
            if offset:
                self.found.append(line)
                self._blank = True
                following = self._written[line + offset - 1 : line + offset]
                if following and following[0].startswith(part):
                    self.found[-1] = line + offset
            if self._blank and part.strip():
                self._blank = False
                if not offset:
                    self.found[-1] = line


def _explain(
    error: Exception, environment: Environment, source: Source, names: Mapping[str, Any]
) -> SourceError:
    """Return *error* with the place in the template that caused it."""
    steps = list(_template_frames(error.__traceback__))
    known = {source.path or source.name: source}
    if isinstance(error, jinja2.TemplateSyntaxError):
        return _syntax(error, environment, source, steps)
    if isinstance(error, SourceError):
        chain = [_place(step, known) for step in reversed(steps)]
        return type(error)(error.reason, error.place, error.text, (*error.chain, *chain))
    place, text = SourceLine(source.name), source.text
    if steps:
        place = _place(steps[-1], known)
        text = _text_of(steps[-1][0], environment, known)
    chain = [_place(step, known) for step in reversed(steps[:-1])]
    if isinstance(error, jinja2.UndefinedError):
        functions = _function_names(names) if "FunctionCalls" in str(error) else ()
        reason = f"Jinja variable {undefined_reason(str(error), names, functions)}"
        return UndefinedNameError(reason, place, text, chain)
    if isinstance(error, jinja2.TemplateNotFound):
        return TemplateFaultError(f"Jinja error: no template {error}", place, text, chain)
    what = str(error) or type(error).__name__
    return TemplateFaultError(f"Jinja error: {what}", place, text, chain)


def _function_names(names: Mapping[str, Any]) -> Sequence[str]:
    calls = names["salt"]
    try:
        return calls.names() if isinstance(calls, FunctionCalls) else ()
    except ImportError:
        # A module that can't be imported here must not hide the error that is told.
        return ()


def _syntax(
    error: jinja2.TemplateSyntaxError,
    environment: Environment,
    source: Source,
    steps: Sequence[_Step] = (),
) -> SourceError:
    known = {source.path or source.name: source}
    name = error.name or source.path or source.name
    reason = f"Jinja syntax error: {error.message}"
    chain = [_place(step, known) for step in reversed(steps)]
    text = _text_of(name, environment, known)
    return TemplateSyntaxFaultError(reason, _place((name, error.lineno), known), text, chain)


def _template_frames(traceback: Optional[TracebackType]) -> Iterator[_Step]:
    """Yield (template name, line) of every template in *traceback*, outermost first."""
    last: Optional[_Step] = None
    while traceback is not None:
        template = traceback.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, jinja2.Template):
            step = (str(template.name), template.get_corresponding_lineno(traceback.tb_lineno))
            # A macro, block or loop is a frame of its own in the same template.
            if last is not None and last[0] != step[0]:
                yield last
            last = step
        traceback = traceback.tb_next
    if last is not None:
        yield last


def _place(step: _Step, known: Mapping[str, Source]) -> SourceLine:
    name, line = step
    if name in known:
        return SourceLine(known[name].name, line)
    return SourceLine(name if name.startswith(_SCHEME) else _SCHEME + name, line)


def _text_of(name: str, environment: Environment, known: Mapping[str, Source]) -> str:
    if name in known:
        return known[name].text
    try:
        return environment.loader.get_source(environment, name)[0] if environment.loader else ""
    except (OSError, UnicodeError, jinja2.TemplateNotFound):
        return ""


def undefined_reason(text: str, names: Iterable[str], functions: Iterable[str]) -> str:
    """Return Jinja's sentence about an undefined name, with the nearest right one."""
    function = _NO_FUNCTION.search(text)
    if function:
        name = function.group(1)
        near = nearest(name, functions)
        text = f"'salt' has no function {name!r}"
    else:
        found = _UNDEFINED.match(text)
        near = nearest(found.group(1), names) if found else None
    return text + (f"; did you mean {near!r}?" if near else "")

"""Jinja as Salt's trees use it: sandboxed, strict about undefined names, with a map of lines.

What a template sees is Salt's: `salt`, `grains`, `pillar`, `opts`, `saltenv`, `env`, `sls`,
`slspath`, `tpldir`, … Templates are imported from the file roots; a path that begins with `./` or
`../` is relative to the template that names it. Imports without context still see those names, as
in Salt (recorded case `jinja/map_context`), because they are handed over as globals.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from contextlib import contextmanager
from dis import findlinestarts
from functools import partial
from itertools import islice
from types import CodeType
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Tuple,
    Union,
)

from catena.renderers.jinja_lean import Bytecode  # first: it imports jinja2 with care

# isort: split
import jinja2
from jinja2 import nodes
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.compiler import CodeGenerator, Frame
from jinja2.sandbox import SandboxedEnvironment

from catena.core.context import Context, FileClient
from catena.core.files import UnsafeFolderError, private_folder
from catena.core.frozen import dataclass, replace
from catena.core.suggest import nearest
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls, FunctionModule, full_name
from catena.renderers.filters import FILTERS, GLOBALS, TESTS
from catena.renderers.filters_serial import printable
from catena.renderers.jinja_faults import Faults, template_name
from catena.renderers.jinja_limits import check_operator, limited_time
from catena.renderers.jinja_options import Options, configured, headed, untouched
from catena.renderers.jinja_tags import DataTags, Profile
from catena.renderers.source import (
    LineMap,
    Source,
    SourceLimitError,
    decoded,
    plain,
    sls_variables,
    template_options,
    template_variables,
)

MAX_OUTPUT = 64 * 1024 * 1024
#: Processor time of one rendering.
MAX_SECONDS = 60.0
#: Part of the name of the bytecode folder: grows whenever `_LineCodeGenerator` writes other code.
_CODE_VERSION = 2
_RELATIVE = ("./", "../")
_SCHEME = "salt://"
_PILLAR = "pillar://"
_KEYS_LOOKED_AT = 2000


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
        LimitError: the text grows beyond 64 Mi characters, or takes more than a minute.
    """
    plain_text = untouched(context.opts, bool(source.sls), source.text)
    if plain_text is not None:
        return JinjaText(plain_text, LineMap())
    told = headed(source.text, configured(context.opts, bool(source.sls)))
    environment = environment_for(context, source.saltenv, told.options)
    names = _names(context, source, sls_names)
    names.update(variables)
    with environment.seeing(names, source, context):
        made = _rendered(environment, replace(source, text=told.text), names)
    return made.without_first_line() if told.leading else made


def _rendered(environment: Environment, source: Source, names: Dict[str, Any]) -> JinjaText:
    # Salt renders without the last line end and puts it back, so that a trimming end tag can't
    # eat it.
    end = "\n" if source.text.endswith(("\n", "\r")) else ""
    try:
        with limited_time(MAX_SECONDS):
            template = environment.template(source, names)
            return _collect(template, names, source, end)
    except Exception as error:
        # Whatever a function that the template calls may raise; it goes on with its place.
        raise Faults(environment, source, names).explained(error) from error


def environment_for(context: Context, saltenv: str, options: Options = ()) -> Environment:
    """Return the environment of this job process for *saltenv*, made on first use."""
    key = f"catena.renderers.jinja {saltenv} {options}"
    kept: Optional[Tuple[FileClient, Environment]] = context.scratch.get(key)
    if kept is None or kept[0] is not context.files:
        cache = _bytecode_cache(context, options)
        environment = Environment(context.files, saltenv, cache, options)
        if context.running is not None:
            environment.filters.update(_filters_there(context))
        kept = (context.files, environment)
        context.scratch[key] = kept
    return kept[1]


def _filters_there(context: Context) -> Dict[str, Any]:
    """Return the filters that look at a host, for a context whose host is not this one."""
    from catena.renderers.filters_host import FILTERS as ON_HOST
    from catena.renderers.filters_host import PURE

    return {n: partial(context.call, "jinja.host_filter", n) for n in ON_HOST if n not in PURE}


class _Undefined(jinja2.StrictUndefined):
    """Names the whole function where a module of `salt` lacks one, and the nearest key."""

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, FunctionModule):
            full = full_name(self._undefined_obj, str(self._undefined_name))
            return f"'FunctionCalls object' has no attribute '{full}'"
        near = None
        if isinstance(self._undefined_obj, Mapping):
            known = islice(map(str, self._undefined_obj), _KEYS_LOOKED_AT)
            near = nearest(str(self._undefined_name), known)
        return super()._undefined_message + (f"; did you mean {near!r}?" if near else "")


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

    def list_templates(self) -> List[str]:
        """Return the paths of all files."""
        return [entry.path for entry in self._files.entries(self._saltenv)]

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> Tuple[str, str, Callable[[], bool]]:
        """Return text, path and a check that the file is still the same."""
        path = template[len(_SCHEME) :] if template.startswith(_SCHEME) else template
        found = self._files.fetch(path, self._saltenv)
        if found is None:
            raise jinja2.TemplateNotFound(template)
        stamp = found.stat().st_mtime_ns
        address = environment.address(path) if isinstance(environment, Environment) else path
        text = decoded(found.read_bytes(), address)

        def same() -> bool:
            now = self._files.fetch(path, self._saltenv)
            return now == found and now is not None and now.stat().st_mtime_ns == stamp

        return text, str(found), same


def _at_run_time(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return *call* as a filter that Jinja does not call when it compiles a template.

    The result would become part of the bytecode, which outlives the custom file.
    """

    @jinja2.pass_context
    def late(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return late


class LateNames(Dict[str, Any]):
    """Filters or tests by name: built-in ones, else those that custom files declare.

    Args:
        environment: its running rendering decides whose files these are.
        kind: "filter" or "test".
        known: the built-in ones.
    """

    def __init__(self, environment: Environment, kind: str, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self._environment = environment
        self._kind = kind

    def __missing__(self, name: str) -> Any:
        context = self._environment.context
        found = context.functions.template_names() if context is not None else {}
        return _at_run_time(partial(found[self._kind, name], context))

    def __contains__(self, name: object) -> bool:
        return self.get(name, None) is not None

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a filter or test, or *default*."""
        try:
            return self[name]
        except KeyError:
            return default


class Environment(SandboxedEnvironment):
    """Jinja with Salt's filters, tests and tags, loading from one file client."""

    code_generator_class = _LineCodeGenerator
    intercepted_binops = frozenset(("*", "**"))

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
        self.filters = LateNames(self, "filter", {**self.filters, **FILTERS})
        self.tests = LateNames(self, "test", {**self.tests, **TESTS})
        self.globals.update(GLOBALS)
        self.globals.pop("lipsum", None)
        self._names: Dict[str, Any] = {}
        self._source: Optional[Source] = None
        #: Of the running rendering; None outside.
        self.context: Optional[Context] = None

    @contextmanager
    def seeing(self, names: Dict[str, Any], source: Source, context: Context) -> Iterator[None]:
        """Let every template that is loaded meanwhile see *names*, however deep it is imported.

        A function that a template calls may render another one with this environment.
        """
        before = self._names, self._source, self.context
        self._names, self._source, self.context = names, source, context
        try:
            yield
        finally:
            self._names, self._source, self.context = before

    def address(self, template: str) -> str:
        """Return a template's name as the person knows it: salt://app/map.jinja."""
        source = self._source
        if source is not None and template == template_name(source):
            return source.name
        ours = source is not None and source.name.startswith(_PILLAR)
        return template if "://" in template else f"{_PILLAR if ours else _SCHEME}{template}"

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Do what an operator does, unless it would fill the memory."""
        check_operator(operator, left, right, MAX_OUTPUT)
        return super().call_binop(context, operator, left, right)

    def paths(self) -> List[str]:
        """Return the paths of all files that templates can be imported from."""
        return self.loader.list_templates() if self.loader else []

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
        name = template_name(source)
        try:
            return self._compiled(source, name, names)
        except jinja2.TemplateSyntaxError as error:
            raise Faults(self, source, names).explained(error) from None

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
        return Bytecode(str(private_folder(top / f"jinja-{_CODE_VERSION}{kind}")))
    except (OSError, UnsafeFolderError):
        return None


def _names(context: Context, source: Source, sls_names: bool) -> Dict[str, Any]:
    names: Dict[str, Any] = {
        "salt": FunctionCalls(context, source.name),
        "grains": plain(context.grains),
        "pillar": plain(context.pillar),
        "opts": template_options(context),
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
    generator: Any = template.root_render_func(template.new_context(names))
    starts, written = _template_lines(template, generator.gi_code)
    #: The line of the template by the instruction at which a piece was given.
    known: Dict[int, int] = {}
    frame = generator.gi_frame
    for piece in generator:
        instruction = frame.f_lasti
        line = known.get(instruction, 0)
        if not line:
            line = written[max(0, bisect_right(starts, instruction) - 1)]
            known[instruction] = line
        pieces.append(piece)
        size += len(piece)
        if size > MAX_OUTPUT:
            reason = f"renders to more than {MAX_OUTPUT} characters"
            raise SourceLimitError(reason, SourceLine(source.name, line), source.text)
        lines.add(piece, line)
    return JinjaText("".join(pieces) + end, LineMap(tuple(lines.found)))


def _template_lines(
    template: jinja2.Template, code: CodeType
) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Return where each line of *code* begins, and the template's line that it was made from.

    A frame tells its instruction at once, but finds its line by a walk through the code: in a
    long template that walk, once for each piece, would take most of the time.
    """
    # Jinja parses this table anew on every look.
    table = sorted((line, written) for written, line in template.debug_info)
    lines = [line for line, _ in table]
    starts, found = [0], [1]
    for start, line in findlinestarts(code):
        if line is not None:
            index = bisect_right(lines, line)
            starts.append(start)
            found.append(table[index - 1][1] if index else 1)
    return tuple(starts), tuple(found)


class _LineNotes:
    """Collects the source line of every rendered line."""

    def __init__(self, written: List[str]) -> None:
        self._written = written
        #: Whether the line that is being rendered has nothing but blanks so far.
        self._blank = True
        self._known: Dict[Tuple[str, int], Tuple[bool, List[int], bool]] = {}
        self.found: List[int] = [1]

    def add(self, piece: str, line: int) -> None:
        """Note that *piece* came from what begins in source line *line*.

        A constant runs on through the lines of the source; the value of an expression stays on
        the line of its expression.
        """
        if "\n" not in piece:
            if self._blank and piece.strip():
                self._blank = False
                self.found[-1] = line
            return
        # In a loop the same constant comes again and again.
        known = self._known.get((piece, line))
        if known is None:
            known = self._known[piece, line] = self._lines(piece.split("\n"), line)
        begins, lines, blank = known
        if self._blank and begins:
            self.found[-1] = line
        self.found += lines
        self._blank = blank

    def _lines(self, parts: List[str], line: int) -> Tuple[bool, List[int], bool]:
        """Return whether text stands before the first line end, the lines behind it, the rest.

        The rest is whether what follows the last line end is blank.
        """
        lines = []
        for offset, part in enumerate(parts[1:], 1):
            following = self._written[line + offset - 1 : line + offset]
            runs_on = bool(following) and following[0].startswith(part)
            lines.append(line + offset if runs_on else line)
        return bool(parts[0].strip()), lines, not parts[-1].strip()

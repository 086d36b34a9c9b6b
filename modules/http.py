"""http.*: HTTP requests with Python's standard library."""

from __future__ import annotations

import base64
import codecs
import contextlib
import json
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field, fields
from catena.core.plugins import function
from catena.core.suggest import unknown

BODY_LIMIT = 16 * 1024 * 1024
_SECONDS = 60.0
_SCHEMES = ("http", "https")
#: Headers that a redirect to another host must not receive, as the client spells them.
_SECRET_HEADERS = ("Authorization", "Cookie")
_DECODERS = ("auto", "json", "xml", "yaml", "plain")
#: Options of Salt's HTTP client without effect here.
_IGNORED = frozenset(
    """backend cookie_format cookie_jar cookies data_render data_renderer formdata
    formdata_fieldname formdata_filename handle header_render header_renderer headers_out
    hide_fields node opts persist_session port session_cookie_jar stream template_dict test_url
    text_out decode_out""".split()
)


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    url: str
    method: str = "GET"
    data: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = _SECONDS
    #: False: accept any certificate; a path: trusted certificate authorities.
    verify: Union[bool, str] = True
    #: Path of this client's certificate and key.
    cert: str = ""
    #: Maximum size of the body in bytes.
    limit: int = BODY_LIMIT
    #: Seconds for the whole exchange; 0: only `timeout` for each step.
    deadline: float = 0.0


@dataclass(frozen=True)
class HttpAnswer:
    """The reply of the server."""

    body: bytes = b""
    status: int = 0
    kind: str = ""
    charset: str = "utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode(self.charset, errors="replace")


def ask(request: Request) -> HttpAnswer:
    """Send the request and return the reply; a failure is returned too.

    Raises:
        UsageError: the address is none of http or https.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlsplit
    from urllib.request import Request as Question

    if urlsplit(request.url).scheme not in _SCHEMES:
        raise UsageError(f"{request.url[:200]!r} is no http:// or https:// address")
    question = Question(  # the scheme was checked
        request.url, request.data, dict(request.headers), method=request.method
    )
    watch = _Watch(request.deadline)
    try:
        with watch:
            try:
                with _opener(request, watch).open(question, timeout=request.timeout) as found:
                    answer = _answer(found, request.limit)
            except HTTPError as problem:
                with problem:
                    error = f"HTTP {problem.code}: {problem.reason}"
                    answer = _answer(problem, request.limit, error)
    except URLError as problem:
        answer = HttpAnswer(error=str(problem.reason))
    except (OSError, HTTPException, ValueError) as problem:
        answer = HttpAnswer(error=str(problem))
    if watch.has_ended:
        return HttpAnswer(error=f"the answer took longer than {request.deadline:g} seconds")
    return answer


class _Watch:
    """Ends the connections of an exchange at its deadline.

    A time limit of the socket does not: a server that sends a byte now and then never meets it.

    Args:
        seconds: from the start of the exchange; 0: never.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sockets: List[Any] = []
        self._timer: Any = None
        self.has_ended = False

    def __enter__(self) -> None:
        if self._seconds:
            from threading import Timer

            self._timer = Timer(self._seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def connected(self, sock: Any) -> None:
        """Note a connection."""
        self._sockets.append(sock)
        if self.has_ended:
            self._end()

    def _end(self) -> None:
        import socket

        self.has_ended = True
        for sock in list(self._sockets):
            # The other side, or the end of the exchange, may have closed it already.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _watched_handlers(request: Request, watch: _Watch) -> List[Any]:
    """Return handlers of urllib whose connections *watch* may end."""
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.request import HTTPHandler, HTTPSHandler

    class Plain(HTTPConnection):
        """A connection that reports its socket."""

        def connect(self) -> None:
            super().connect()
            watch.connected(self.sock)

    class Secure(HTTPSConnection):
        """A connection that reports its socket."""

        def connect(self) -> None:
            super().connect()
            watch.connected(self.sock)

    tls = _tls(request)

    class Http(HTTPHandler):
        """Opens watched connections."""

        def http_open(self, req: Any) -> Any:
            return self.do_open(Plain, req)

    class Https(HTTPSHandler):
        """Opens watched connections over TLS."""

        def https_open(self, req: Any) -> Any:
            return self.do_open(Secure, req, context=tls)

    return [Http(), Https(context=tls)]


def _opener(request: Request, watch: _Watch) -> Any:
    from urllib.request import HTTPRedirectHandler, build_opener

    class Redirects(HTTPRedirectHandler):
        """Follows redirects; sends no password to another host."""

        def redirect_request(self, req: Any, *given: Any) -> Any:
            made: Any = super().redirect_request(req, *given)
            if made is not None and (
                made.host != req.host or made.type not in (req.type, "https")
            ):
                for name in _SECRET_HEADERS:
                    made.remove_header(name)
            return made

    return build_opener(*_watched_handlers(request, watch), Redirects)


def _tls(request: Request) -> Any:
    import ssl

    context = ssl.create_default_context(
        cafile=request.verify if isinstance(request.verify, str) else None
    )
    if request.verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if request.cert:
        context.load_cert_chain(request.cert)
    return context


def _answer(found: Any, limit: int, error: str = "") -> HttpAnswer:
    body = found.read(limit + 1)
    if len(body) > limit:
        return HttpAnswer(error=f"the answer is longer than {limit} bytes")
    kind = found.headers.get_content_type()
    charset = _known(found.headers.get_content_charset())
    return HttpAnswer(body, found.status, kind, charset, dict(found.headers), error)


def _known(charset: Optional[str]) -> str:
    """Return *charset*, or UTF-8 if this Python does not support it."""
    try:
        return codecs.lookup(charset or "utf-8").name
    except LookupError:
        return "utf-8"


@dataclass(frozen=True)
class HttpOptions:
    """Options of http.query, under Salt's names."""

    method: str = "GET"
    #: Parameters for the query string.
    params: Optional[Mapping[str, Any]] = None
    #: Body of the request: a text, or a mapping for a form.
    data: Any = None
    #: File with the body.
    data_file: str = ""
    header_dict: Optional[Mapping[str, Any]] = None
    #: "Name: value" lines, and a file with such lines.
    header_list: Sequence[str] = ()
    header_file: str = ""
    username: str = ""
    password: str = ""
    #: [username, password], as an alternative.
    auth: Any = None
    #: Decode the body into "dict", by decode_type or the server's content type.
    decode: bool = False
    decode_type: str = "auto"
    #: Include the status code, the headers and the text in the result.
    status: bool = False
    headers: bool = False
    text: bool = False
    #: Send no request.
    test: bool = False
    #: Trusted certificate authorities; False: accept any certificate.
    ca_bundle: str = ""
    verify_ssl: bool = True
    #: Certificate of this client.
    cert: str = ""
    agent: str = "catena"
    #: False: a status of 400 or more is no error.
    raise_error: bool = True
    #: False: return the body as bytes.
    decode_body: bool = True
    timeout: float = _SECONDS


def _options(given: Mapping[str, Any]) -> HttpOptions:
    names = [one.name for one in fields(HttpOptions)]
    for name in given:
        if name not in names and name not in _IGNORED and not name.startswith("__"):
            raise UsageError(f"http.query: {unknown('argument', name, names)}")
    return HttpOptions(**{name: given[name] for name in names if given.get(name) is not None})


@function()
def query(context: Context, /, url: str, method: str = "GET", **kwargs: Any) -> Dict[str, Any]:
    """Send an HTTP request and return the reply.

    Args:
        context: the call's context.
        url: address, http or https.
        method: GET, POST, PUT, …
        kwargs: params, data, data_file, header_dict, header_list, header_file, username, password,
            auth; decode, decode_type (auto, json, xml, yaml, plain), decode_body; status, headers,
            text (include them in the result); test (send nothing), raise_error, timeout, agent;
            verify_ssl, ca_bundle, cert. Other options of Salt's have no effect.

    Returns:
        {"body"}, plus "status", "headers", "text" and "dict" if requested; {"error"} on failure.

    Raises:
        UsageError: an argument that is not known, or no http address.
        CommandExecutionError: a file can't be read, or the answer is not what it is to be read as.
    """
    options = _options({**kwargs, "method": method})
    if options.test:
        return {}
    answer = ask(_request(str(url), options))
    shown = _shown(answer, options.raise_error, options.decode_body, options.status)
    if "error" in shown:
        return shown
    if options.headers:
        shown["headers"] = dict(answer.headers)
    if options.text:
        shown["text"] = answer.text()
    return {**shown, **_decoded(answer, options.decode_type)} if options.decode else shown


def _request(url: str, options: HttpOptions) -> Request:
    user, secret = options.username, options.password
    if isinstance(options.auth, (list, tuple)):
        user, secret = options.auth
    lines = [*options.header_list]
    if options.header_file:
        lines += [line for line in _read(options.header_file).decode().splitlines() if line]
    return Request(
        url=_with_params(url, options.params),
        method=str(options.method),
        data=_read(options.data_file) if options.data_file else _body(options.data),
        headers=_headers(options.header_dict, lines, str(options.agent), user, secret),
        timeout=float(options.timeout),
        verify=(options.ca_bundle or True) if options.verify_ssl else False,
        cert=options.cert,
    )


def _shown(
    answer: HttpAnswer, raise_error: bool, decode_body: bool, status: bool
) -> Dict[str, Any]:
    if answer.error and not answer.status:
        return {"status": 0, "error": answer.error} if status else {"error": answer.error}
    body = answer.text() if decode_body else answer.body
    if answer.error and raise_error:
        return {"status": answer.status, "error": answer.error, "body": body}
    return {"body": body, **({"status": answer.status} if status else {})}


def _with_params(url: str, params: Optional[Mapping[str, Any]]) -> str:
    from urllib.parse import urlencode

    if not params:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(dict(params), doseq=True)}"


def _body(data: Any) -> Optional[bytes]:
    from urllib.parse import urlencode

    if data is None:
        return None
    if isinstance(data, Mapping):
        return urlencode(dict(data), doseq=True).encode("ascii")
    return data if isinstance(data, bytes) else str(data).encode("utf-8")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


def _headers(
    given: Optional[Mapping[str, Any]], lines: List[str], agent: str, user: Any, secret: Any
) -> Dict[str, str]:
    found = {"User-Agent": agent}
    for line in lines:
        name, colon, value = str(line).partition(":")
        if not colon:
            raise UsageError(f"{line!r} is no header: 'Name: value'")
        found[name.strip()] = value.strip()
    found.update({str(name): str(value) for name, value in (given or {}).items()})
    if user:
        token = base64.b64encode(f"{user}:{secret or ''}".encode()).decode("ascii")
        found["Authorization"] = f"Basic {token}"
    return found


def _decoded(answer: HttpAnswer, kind: str) -> Dict[str, Any]:
    """Return {"dict": data}, or {"text": …} if the body is no data."""
    if kind not in _DECODERS:
        raise UsageError(unknown("decode_type", kind, _DECODERS))
    if kind == "auto":
        kind = next((one for one in ("json", "xml", "yaml") if one in answer.kind), "plain")
    text = answer.text()
    if kind == "plain":
        return {"text": text}
    try:
        return {"dict": _READ[kind](text)}
    except (ValueError, SyntaxError) as problem:
        raise CommandExecutionError(f"the answer is not {kind}: {problem}") from problem


def _read_yaml(text: str) -> Any:
    from catena.modules.shared.serializers import LOAD

    return LOAD["yaml"](text, {})


def _read_xml(text: str) -> List[Any]:
    """Return the elements below the top one, each as {name: text or list of elements}."""
    from xml.etree.ElementTree import fromstring

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it has a document type, which is not read")

    def data(element: Any) -> Dict[str, Any]:
        inside = [data(child) for child in element]
        merged: Dict[str, Any] = {}
        for one in inside:
            merged.update(one)
        return {element.tag.rpartition("}")[2]: merged if inside else element.text}

    return [data(child) for child in fromstring(text)]  # without entities


_READ: Dict[str, Callable[[str], Any]] = {"json": json.loads, "xml": _read_xml, "yaml": _read_yaml}


@function()
def wait_for_successful_query(
    context: Context,
    /,
    url: str,
    wait_for: float = 300,
    request_interval: float = 1,
    **kwargs: Any,
) -> Dict[str, Any]:
    """Repeat an HTTP request until it succeeds; return the last reply.

    Args:
        context: the call's context.
        url: address.
        wait_for: seconds after which to give up.
        request_interval: seconds between two requests.
        kwargs: of http.query.
    """
    end = time.monotonic() + float(wait_for)
    while True:
        found = query(context, url, **kwargs)
        if "error" not in found or time.monotonic() >= end:
            return found
        time.sleep(min(float(request_interval), max(0.0, end - time.monotonic())))

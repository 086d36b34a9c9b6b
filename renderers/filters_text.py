"""Salt's filters on texts: quoting, expressions, hashes, numbers, dates."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
import secrets
import shlex
import string
import uuid
from typing import Any, Callable, Dict, Optional, Sequence, Union

from jinja2.exceptions import TemplateRuntimeError

from catena.renderers.dates import date_of

#: Namespace of the `uuid` filter. A change would change what templates render.
_UUID_SPACE = "91633ebf-1c86-5e33-935a-28061f4b480e"
_NUMBER_UNITS = "KMGTPEZY"
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(?:([kmgtpezy])(i?b)?|b)?\s*\Z", re.IGNORECASE)


def quote(text: Any) -> str:
    """Return *text* as one word of a POSIX shell."""
    return shlex.quote(str(text))


def _flags(ignorecase: bool, multiline: bool) -> int:
    return (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0)


def _groups(found: Optional[re.Match[str]]) -> Optional[Sequence[Any]]:
    if found is None:
        return None
    return found.groups() or (found.group(),)


def regex_search(
    text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False
) -> Optional[Sequence[Any]]:
    """Return the groups of the first place that fits (the whole where there are none)."""
    return _groups(re.search(pattern, str(text), _flags(ignorecase, multiline)))


def regex_match(
    text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False
) -> Optional[Sequence[Any]]:
    """Return the groups where the beginning of *text* fits."""
    return _groups(re.match(pattern, str(text), _flags(ignorecase, multiline)))


def regex_replace(
    text: Any, pattern: str, new: str, ignorecase: bool = False, multiline: bool = False
) -> str:
    """Return *text* with every place that fits replaced."""
    return re.sub(pattern, new, str(text), flags=_flags(ignorecase, multiline))


def test_match(text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Return whether the beginning of *text* fits."""
    return bool(re.match(pattern, str(text), _flags(ignorecase, multiline)))


def test_equalto(value: Any, other: Any) -> bool:
    """Return whether both are equal."""
    return bool(value == other)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8")


def _hash(name: str) -> Callable[[Any], str]:
    def digest(value: Any) -> str:
        return hashlib.new(name, _bytes(value)).hexdigest()

    return digest


def hmac_valid(text: Any, secret: Any, signature: Any) -> bool:
    """Return whether *signature* (base64) is the HMAC-SHA256 of *text*."""
    made = base64.b64encode(hmac.new(_bytes(secret), _bytes(text), "sha256").digest())
    return hmac.compare_digest(made, _bytes(signature))


def hmac_compute(text: Any, secret: Any) -> str:
    """Return the HMAC-SHA256 of *text*, hex."""
    return hmac.new(_bytes(secret), _bytes(text), "sha256").hexdigest()


def base64_encode(value: Any) -> str:
    """Return *value* in base64."""
    return base64.b64encode(_bytes(value)).decode("ascii")


def base64_decode(value: Any) -> Union[str, bytes]:
    """Return the text that *value* (base64) holds; bytes where it is no UTF-8."""
    found = base64.b64decode(_bytes(value))
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return found


def make_uuid(value: Any) -> str:
    """Return the UUID (version 5) that stands for *value*."""
    return str(uuid.uuid5(uuid.UUID(_UUID_SPACE), str(value)))


def random_hash(size: int = 9_999_999_999, hash_type: str = "md5") -> str:
    """Return the hash of a random number below *size*."""
    return hashlib.new(hash_type, str(secrets.randbelow(int(size))).encode()).hexdigest()


def random_str(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Return *length* random letters and digits."""
    return "".join(secrets.choice(alphabet) for _ in range(int(length)))


def random_sample(value: Sequence[Any], size: int, seed: Any = None) -> Any:
    """Return *size* members of a list; always the same for one *seed*."""
    if seed is None:
        return random.sample(list(value), int(size))
    # Seed with the hash as text, so that a tree draws the same members as under Salt.
    text = seed if isinstance(seed, bytes) else str(seed).encode("utf-8")
    return random.Random(hashlib.sha512(text).hexdigest()).sample(list(value), int(size))


def random_shuffle(value: Sequence[Any], seed: Any = None) -> Any:
    """Return a list in another order; always the same for one *seed*."""
    return random_sample(value, len(value), seed)


def to_number(value: Any) -> Any:
    """Return a value as int, else as float, itself otherwise; a float loses what int() cuts."""
    for kind in (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return value


def to_bool(value: Any) -> bool:
    """Return Salt's idea of truth: "yes", "true", "1", positive ints, filled lists (case 41)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() in ("yes", "1", "true")
    if isinstance(value, int):
        return value > 0
    if isinstance(value, (list, dict, set)):
        return len(value) > 0
    return False


def to_bytes(value: Any, encoding: str = "utf-8") -> bytes:
    """Return a text as bytes."""
    return value if isinstance(value, bytes) else str(value).encode(encoding)


def human_to_bytes(value: Any, default_unit: str = "B", handle_metric: bool = False) -> int:
    """Return a size such as "1.5 GiB" in bytes; units are powers of 1024.

    With *handle_metric*, units without an i (GB) are powers of 1000. 0 where it is no size.
    """
    text = str(value).strip()
    if re.fullmatch(r"[0-9.]+", text):
        text += default_unit
    found = _SIZE.match(text)
    if not found:
        return 0
    unit = (found.group(2) or "").upper()
    power = _NUMBER_UNITS.index(unit) + 1 if unit else 0
    decimal = handle_metric and (found.group(3) or "").lower() == "b"
    return int(float(found.group(1)) * (1000 if decimal else 1024) ** power)


def is_hex(value: Any) -> bool:
    """Return whether *value* is a hexadecimal number."""
    try:
        int(value, 16)
    except (TypeError, ValueError):
        return False
    return True


def contains_whitespace(text: Any) -> bool:
    """Return whether there is a blank in *text*, or among the members of a list."""
    return any(character in string.whitespace for character in text)


def to_snake_case(text: str) -> str:
    """Return "camelCase" as "camel_case"; capitals in a row are one word."""
    parted = re.sub(r"(?<=[^\W_])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", text)
    return parted.lower()


def to_camel_case(text: str, uppercamel: bool = False) -> str:
    """Return "snake_case" as "snakeCase", or as "SnakeCase"."""
    first, *words = text.split("_")
    first = first.capitalize() if uppercamel else first
    return first + "".join(word.capitalize() for word in words)


def strftime(value: Any = None, form: str = "%Y-%m-%d") -> str:
    """Return a date in the form given; see `dates.date_of`."""
    return date_of(value).strftime(form)


def fail(message: Any) -> None:
    """Stop the rendering with a message (the global `raise`)."""
    raise TemplateRuntimeError(str(message))


FILTERS: Dict[str, Callable[..., Any]] = {
    "quote": quote,
    "regex_search": regex_search,
    "regex_match": regex_match,
    "regex_replace": regex_replace,
    "regex_escape": lambda text: re.escape(str(text)),
    "md5": _hash("md5"),
    "sha1": _hash("sha1"),
    "sha256": _hash("sha256"),
    "sha512": _hash("sha512"),
    "hmac": hmac_valid,
    "hmac_compute": hmac_compute,
    "base64_encode": base64_encode,
    "base64_decode": base64_decode,
    "uuid": make_uuid,
    "random_hash": random_hash,
    "rand_str": random_hash,
    "random_str": random_str,
    "random_sample": random_sample,
    "random_shuffle": random_shuffle,
    "to_num": to_number,
    "str_to_num": to_number,
    "to_bool": to_bool,
    "to_bytes": to_bytes,
    "human_to_bytes": human_to_bytes,
    "is_hex": is_hex,
    "contains_whitespace": contains_whitespace,
    "to_snake_case": to_snake_case,
    "to_camelcase": to_camel_case,
    "skip": lambda value: "",
    "strftime": strftime,
    "date_format": strftime,
}

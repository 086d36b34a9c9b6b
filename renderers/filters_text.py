"""Salt's filters on texts: serialising, quoting, expressions, hashes, numbers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import pprint
import random
import re
import secrets
import shlex
import string
import uuid
from datetime import date, datetime, timezone
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

import yaml as pyyaml
from jinja2.exceptions import TemplateRuntimeError

from catena.renderers import yaml
from catena.renderers.jinja_tags import parse_json

#: The namespace of the `uuid` filter; part of what people's templates give.
_UUID_SPACE = uuid.UUID("91633ebf-1c86-5e33-935a-28061f4b480e")
_NUMBER_UNITS = "KMGTPEZY"
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(?:([kmgtpezy])(i?b)?|b)?\s*\Z", re.IGNORECASE)


def to_yaml(value: Any, flow_style: bool = True) -> str:
    """Return *value* as YAML without a final line end; in one line's style by default."""
    text = pyyaml.dump(
        _sorted(value),
        Dumper=yaml.TextDumper,
        default_flow_style=flow_style,
        allow_unicode=True,
        sort_keys=False,
    ).strip()
    return text[:-4] if text.endswith("\n...") else str(text)


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        try:
            keys = sorted(value)
        except TypeError:
            keys = list(value)
        return {key: _sorted(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def to_json(value: Any, sort_keys: bool = True, indent: Optional[int] = None) -> str:
    """Return *value* as JSON."""
    return json.dumps(value, sort_keys=sort_keys, indent=indent, default=str)


def to_python(value: Any) -> str:
    """Return *value* as a Python literal."""
    return pprint.pformat(value).strip()


def load_yaml(value: Any) -> Any:
    """Return the data of a YAML text."""
    return yaml.load(str(value), "load_yaml filter")


def load_json(value: Any) -> Any:
    """Return the data of a JSON text."""
    return parse_json(str(value), "load_json filter")


def load_text(value: Any) -> str:
    """Return the text itself."""
    return str(value)


def _scalar(value: Any, style: Optional[str]) -> str:
    text = pyyaml.dump(
        value, Dumper=yaml.TextDumper, default_style=style, width=1 << 30, allow_unicode=True
    ).rstrip("\n")
    return text[:-4] if text.endswith("\n...") else str(text)


def yaml_dquote(text: Any) -> str:
    """Return *text* as a YAML scalar in double quotes."""
    return _scalar(str(text), '"')


def yaml_squote(text: Any) -> str:
    """Return *text* as a YAML scalar in single quotes."""
    return _scalar(str(text), "'")


def yaml_encode(value: Any) -> str:
    """Return a scalar as YAML, quoted where it must be."""
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise TemplateRuntimeError("yaml_encode takes a scalar")
    return _scalar(value, None)


def sls_arguments(value: Mapping[str, Any]) -> str:
    """Return a mapping as the argument list of a state: one `- key: value` each."""
    return yaml.dump([{key: value[key]} for key in value]).rstrip("\n")


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


def base64_decode(value: Any) -> str:
    """Return the text that *value* (base64) holds."""
    return base64.b64decode(_bytes(value)).decode("utf-8")


def make_uuid(value: Any) -> str:
    """Return the UUID (version 5) that stands for *value*."""
    return str(uuid.uuid5(_UUID_SPACE, str(value)))


def random_hash(size: int = 9_999_999_999, hash_type: str = "sha256") -> str:
    """Return the hash of a random number below *size*."""
    return hashlib.new(hash_type, str(secrets.randbelow(int(size))).encode()).hexdigest()


def random_str(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Return *length* random letters and digits."""
    return "".join(secrets.choice(alphabet) for _ in range(int(length)))


def random_sample(value: Sequence[Any], size: int, seed: Optional[int] = None) -> Any:
    """Return *size* members of a list; always the same for one *seed*."""
    return random.Random(seed).sample(list(value), int(size))


def random_shuffle(value: Sequence[Any], seed: Optional[int] = None) -> Any:
    """Return a list in another order; always the same for one *seed*."""
    members = list(value)
    random.Random(seed).shuffle(members)
    return members


def to_number(value: Any) -> Any:
    """Return a text as int or float where it is one, itself otherwise."""
    if isinstance(value, (int, float)):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError):
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
        int(str(value), 16)
    except ValueError:
        return False
    return True


def contains_whitespace(text: Any) -> bool:
    """Return whether there is a blank in *text*."""
    return any(character.isspace() for character in str(text))


def strftime(value: Any, form: str = "%Y-%m-%d") -> str:
    """Return a date (datetime, ISO text, or seconds since the epoch) in the form given."""
    return _date(value).strftime(form)


def _date(value: Any) -> Union[date, datetime]:
    if isinstance(value, (date, datetime)):
        return value
    number = to_number(value)
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        return datetime.fromtimestamp(number, timezone.utc)
    if not value:
        return datetime.now(timezone.utc)
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise TemplateRuntimeError(f"{value!r} is not a date") from None


def fail(message: Any) -> None:
    """Stop the rendering with a message (the global `raise`)."""
    raise TemplateRuntimeError(str(message))


FILTERS: Dict[str, Callable[..., Any]] = {
    "yaml": to_yaml,
    "json": to_json,
    "python": to_python,
    "load_yaml": load_yaml,
    "load_json": load_json,
    "load_text": load_text,
    "yaml_dquote": yaml_dquote,
    "yaml_squote": yaml_squote,
    "yaml_encode": yaml_encode,
    "dict_to_sls_yaml_params": sls_arguments,
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
    "strftime": strftime,
    "date_format": strftime,
}

"""URL identity.

Two forms of a URL, never mixed up:

* The **URL fetched** is the URL as seen, parsed and serialised by the WHATWG URL standard (ada),
  without fragment and without credentials. Servers that route on a bare query key or on the
  order of parameters get exactly what the page said.
* The **normal form** is used for dedup only. It maps spellings that servers treat alike to one
  string: percent-encoding of unreserved characters, hexadecimal case, the order of differently
  named query parameters, tracking and session parameters, an empty query or parameter, the
  trailing dot of the host. It never reaches a server. A URL fetched twice costs a request and two
  pages merged cost a page, so whatever some server might tell apart stays apart: reserved
  characters and their escapes, `+` and `%20`, `a` and `a=`, the order of a query that has a
  parameter without `=`, and all of a part that holds a `%` which begins no escape.

The **URL id** is the 128-bit BLAKE2b hash of the crawl id and the normal form. The **host key**
is the host without port and without trailing dot: one politeness bucket, one owner.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

import ada_url

from schemas.reasons import Reason

MAX_URL_CHARS: Final = 4096
"""Longest URL that is fetched, in characters of its serialised form."""

URL_ID_BYTES: Final = 16

TRACKING_PARAMS: Final = frozenset(
    {
        "utm_source",
        "utm_medium",
        "utm_campaign",
        "utm_term",
        "utm_content",
        "utm_id",
        "gclid",
        "dclid",
        "fbclid",
        "msclkid",
        "yclid",
        "mc_cid",
        "mc_eid",
        "igshid",
    }
)
SESSION_PARAMS: Final = frozenset({"phpsessid", "jsessionid", "aspsessionid", "cfid", "cftoken"})
IGNORED_PARAMS: Final = TRACKING_PARAMS | SESSION_PARAMS
"""Names of query and path (`;name=value`) parameters, in lower case, that the normal form leaves
out."""

MAX_HOST_CHARS: Final = 253
MAX_LABEL_CHARS: Final = 63
"""Limits of DNS names (RFC 1035, section 2.3.4): a longer one has no address anywhere."""

_PATH_PARAM = re.compile(r";([^;/=]*)=[^;/]*")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = "0123456789ABCDEFabcdef"
_OCTETS = {
    high + low: char
    if (char := chr(int(high + low, 16))) in _UNRESERVED
    else f"%{high}{low}".upper()
    for high in _HEX
    for low in _HEX
}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_QUERY_ESCAPED = frozenset(b"\"#<>'") | frozenset(range(0x21)) | frozenset(range(0x7F, 0x100))
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-\t\n\r]*):")
_STRIP = dict.fromkeys(map(ord, "\t\n\r"))


class CrawlUrl(NamedTuple):
    """A URL that can be fetched. `href` is what is requested; `host` is the host key."""

    href: str
    host: str


class Rejected(NamedTuple):
    """A string that is no URL to fetch, and why."""

    reason: Reason
    detail: str


def absolute(text: str, base: str | None = None, charset: str | None = None) -> str | None:
    """The serialised form of a URL of any scheme, with its fragment; None when it is no URL.

    The arguments are those of `parse`.
    """
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
        if charset is not None:
            text = _encode_query(text, charset)
    try:
        href: str = ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except ValueError:
        return None
    return href


def parse(text: str, base: str | None = None, charset: str | None = None) -> CrawlUrl | Rejected:
    """Parse any string into a URL to fetch or a typed rejection. Never raises.

    Args:
        text: an absolute URL, or one relative to `base`, as found.
        base: absolute URL to resolve against; None means that `text` must be absolute.
        charset: Python codec of the document that holds `text`: the characters of its query are
            sent in that encoding (URL standard, "percent-encode after encoding"). None or a name
            that is no codec: UTF-8. For a document in UTF-16 pass None, as the standard does.
    """
    href = absolute(text, base, charset)
    if href is None:
        return _unparsable(text)
    if not href.startswith(("http://", "https://")):
        return Rejected(Reason.UNSUPPORTED_SCHEME, href.partition(":")[0][:32])
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    if len(href) > MAX_URL_CHARS:
        return Rejected(Reason.URL_TOO_LONG, f"{len(href)} characters")
    return _identify(href)


def host_key(hostname: str) -> str:
    """The politeness bucket of a serialised host: without its trailing dot, in lower case.

    An IPv6 literal keeps its brackets.
    """
    return hostname.removesuffix(".").lower()


def normal_form(href: str, ignore_params: frozenset[str] = IGNORED_PARAMS) -> str:
    """The spelling used for dedup of a serialised URL; idempotent.

    Args:
        href: `CrawlUrl.href`.
        ignore_params: names of query and path parameters, in lower case, to leave out.
    """
    scheme_end = href.index("://") + 3
    path_at = href.find("/", scheme_end)
    authority, rest = href[scheme_end:path_at], href[path_at:]
    if authority.endswith(".") or ".:" in authority:
        host, colon, port = authority.partition(":")
        authority = host.removesuffix(".") + colon + port
    if "?" not in rest and "%" not in rest and ";" not in rest:
        return f"{href[:scheme_end]}{authority}{rest}"
    path, _, query = rest.partition("?")
    if ";" in path:
        path = _without_params(path, ignore_params)
    if "%" in path:
        path = _normal_percent(path)
        if ";" in path:  # a name may have been spelt with escapes
            path = _without_params(path, ignore_params)
    if query:
        query = _normal_query(query, ignore_params)
    return f"{href[:scheme_end]}{authority}{path}{'?' if query else ''}{query}"


def url_id(crawl: str, href: str, ignore_params: frozenset[str] = IGNORED_PARAMS) -> bytes:
    """The 16-byte URL id of a serialised URL in a crawl."""
    text = f"{crawl}\n{normal_form(href, ignore_params)}"
    return blake2b(text.encode(), digest_size=URL_ID_BYTES).digest()


def chain_ids(
    crawl: str, chain: Iterable[str], ignore_params: frozenset[str] = IGNORED_PARAMS
) -> list[bytes]:
    """The URL ids of the URLs of a redirect chain, in order; what is no URL has none."""
    urls = (parse(url) for url in chain)
    return [url_id(crawl, url.href, ignore_params) for url in urls if isinstance(url, CrawlUrl)]


def path_of(href: str) -> str:
    """Path and query of a serialised URL, as sent in the request line and judged by robots."""
    return href[href.index("/", href.index("://") + 3) :]


def origin_of(href: str) -> str:
    """Scheme, host and port of a serialised URL: the key of its robots.txt."""
    return href[: href.index("/", href.index("://") + 3)]


def _host_of(authority: str) -> str:
    if authority.endswith("]"):
        return authority
    host, _, port = authority.rpartition(":")
    return host_key(host if host and port.isdigit() else authority)


def _identify(href: str) -> CrawlUrl | Rejected:
    start = href.index("://") + 3
    end = href.index("/", start)
    authority = href[start:end]
    if "@" in authority:
        authority = authority.rpartition("@")[2]
        href = f"{href[:start]}{authority}{href[end:]}"
    host = _host_of(authority)
    if not _is_name(host):
        return Rejected(Reason.INVALID_URL, f"no DNS name: {host[:200]}")
    if "xn--" in host and not _valid_punycode(host):
        return Rejected(Reason.INVALID_URL, f"broken A-label in {host[:200]}")
    return CrawlUrl(href, host)


def _unparsable(text: str) -> Rejected:
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].translate(_STRIP).lower() not in ("http", "https"):
        return Rejected(Reason.UNSUPPORTED_SCHEME, scheme[1][:32])
    return Rejected(Reason.INVALID_URL, _SURROGATE.sub("\ufffd", text[:256]))


def _is_name(host: str) -> bool:
    """Whether a resolver can be asked: no empty label, none too long."""
    if not host or host[0] == "." or host[-1] == "." or ".." in host or len(host) > MAX_HOST_CHARS:
        return False
    return len(host) <= MAX_LABEL_CHARS or max(map(len, host.split("."))) <= MAX_LABEL_CHARS


def _encode_query(text: str, charset: str) -> str:
    start, end = text.find("?"), text.find("#")
    end = len(text) if end < 0 else end
    if not 0 <= start < end:
        return text

    def escape(match: re.Match[str]) -> str:
        data = match[0].encode(charset, "crawlstream-url")
        return "".join([f"%{byte:02X}" if byte in _QUERY_ESCAPED else chr(byte) for byte in data])

    try:
        return text[:start] + _NOT_ASCII.sub(escape, text[start:end]) + text[end:]
    except (LookupError, ValueError):
        return text


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    """What the standard sends for a character that the encoding lacks: `&#1234;`, escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join([f"%26%23{ord(char)}%3B" for char in lacking]), error.end


codecs.register_error("crawlstream-url", _as_reference)


def _without_params(path: str, ignore_params: frozenset[str]) -> str:
    return _PATH_PARAM.sub(
        lambda param: "" if param[1].lower() in ignore_params else param[0], path
    )


def _normal_percent(text: str) -> str:
    """Unreserved characters unescaped, other escapes in upper case.

    A `%` that begins no escape leaves the text as it is: unescaping beside it could make an
    escape that was not there, and servers differ on what it means.
    """
    first, *parts = text.split("%")
    normal = [first]
    for part in parts:
        octet = _OCTETS.get(part[:2])
        if octet is None:
            return text
        normal.append(octet)
        normal.append(part[2:])
    return "".join(normal)


def _normal_query(query: str, ignore_params: frozenset[str]) -> str:
    kept: list[str] = []
    bare = False
    for pair in query.split("&"):
        if not pair:
            continue
        normal = _normal_percent(pair) if "%" in pair else pair
        name, equals, _ = normal.partition("=")
        if name.lower() not in ignore_params:
            kept.append(normal)
            bare = bare or not equals
    if len(kept) > 1 and not bare:
        kept.sort(key=_sort_key)
    return "&".join(kept)


def _sort_key(pair: str) -> str:
    """Name of a parameter; equal for all names that a server could read as one.

    Those keep their order: other spellings of a name, another case, `a[]` and `a[1]`.
    """
    name = pair.partition("=")[0]
    if "%" in name or "+" in name:
        name = unquote_plus(name)
    return name.partition("[")[0].lower()


@lru_cache(maxsize=4_096)
def _valid_punycode(host: str) -> bool:
    for label in host.split("."):
        if label.startswith("xn--"):
            try:
                decoded = label[4:].encode("ascii").decode("punycode")
            except (UnicodeError, IndexError, OverflowError, ValueError):
                return False
            if decoded.isascii() or not _same_label(decoded, label):
                return False
    return True


def _same_label(decoded: str, label: str) -> bool:
    try:
        return bool(ada_url.idna_to_ascii(decoded) == label.encode())
    except ValueError:
        return False

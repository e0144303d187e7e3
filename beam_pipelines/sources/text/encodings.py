"""Finds what text files hold, and turns encodings into UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.compression import (
    CODEC_FOR_COMPRESSION,
    name_of_start,
    read_by_pandas,
    unread,
)
from beam_pipelines.sources.options import EncodedOptions
from beam_pipelines.sources.source_format import problem
from beam_pipelines.sources.text.documents import DOCUMENTS, is_document

UTF_8 = "utf-8"
# Bytes at the beginning -> the encoding.
# The mark of UTF-32 begins with one of UTF-16.
_WIDE_MARKS = {
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
}
# Encodings of one or two bytes that a message proposes.
COMMON = (
    *("cp1252", "latin-1", "cp1250", "cp1251"),
    *("cp949", "euc_jp", "cp932", "gb18030", "big5"),
)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_LETTER = re.compile(rb"[A-Za-z]")
# A character of UTF-8 of several bytes.
_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_RUN = re.compile(rb"[\x80-\xff]{2,}")
# A share of bytes beyond ASCII among letters, and of those in runs, that Western text does not
# have, and Cyrillic, Greek, Japanese or Chinese text has.
_MOST_NOT_ASCII, _MOST_IN_RUNS = 0.3, 0.6
# Bytes of a sample that are looked at one by one.
_JUDGED_BYTES = 1 << 18
# Of these two encodings, only cp1252 has characters here.
_ONLY_CP1252 = re.compile(rb"[\x80-\x9f]")

# A character beyond ASCII that is no letter, between letters: Polish text in cp1250 read as cp1252.
_ODD_NEIGHBOURS = re.compile(
    r"[^\W\d_][\x80-\x9f\xa1-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7][^\W\d_]"
)
# Characters beyond ASCII, but for the signs of Western text, which tell nothing about letters.
_FOREIGN = re.compile("[^\x00-\x7f€£°“”‘’„–—…•§™®©±½¼¾²³¹«»\xa0]")
_WORD = re.compile(r"(?<!\S)\S*[^\x00-\x7f]\S*")


class TextEncoding(NamedTuple):
    """An encoding that was found.

    Attributes:
      name: of Python's codec.
      example: a word with characters beyond ASCII, where the text itself does not tell the
        encoding; else empty.
      is_certain: whether it may be relied on.
    """

    name: str
    example: str = ""
    is_certain: bool = True


def transcoded_from(source: Source) -> str | None:
    """Returns the encoding of text that is turned into UTF-8, or ``None``.

    Its files are then read as streams.
    """
    encoding = source.options_of(EncodedOptions).encoding
    is_utf8 = encoding and codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")
    return None if is_utf8 else encoding


def find_encoding(head: bytes) -> TextEncoding:
    """Returns the encoding of a text.

    A mark at the beginning decides, or zeros in every second byte, or valid UTF-8. Other text is
    taken for Western, cp1252 or latin-1. This is a guess, and not certain of text that looks like
    another language.

    Args:
      head: beginning of the text, perhaps cut within a character.
    """
    for mark, name in _WIDE_MARKS.items():
        if head.startswith(mark):
            return TextEncoding(name)
    wide = _without_mark(head)
    if wide:
        return TextEncoding(wide)
    if _starts_as_utf8(head) or _is_mostly_utf8(head):
        return TextEncoding(UTF_8)
    return _western(head[:_JUDGED_BYTES] if _NOT_ASCII.search(head[:_JUDGED_BYTES]) else head)


def _without_mark(head: bytes) -> str:
    """Returns which UTF-16 a text without a mark has; empty for others.

    The characters of CSV itself are ASCII. So at least half of the bytes of one parity are zeros.
    """
    some = head[:4096]
    if len(some) < 4 or some.count(0) * 4 < len(some):
        return ""
    for name, zeros, others in (
        ("utf-16-le", some[1::2], some[::2]),
        ("utf-16-be", some[::2], some[1::2]),
    ):
        if 2 * zeros.count(0) >= len(zeros) and not others.count(0):
            return name
    return ""


def _starts_as_utf8(head: bytes) -> bool:
    if head.isascii():
        return True
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _is_mostly_utf8(head: bytes) -> bool:
    """Whether a text is UTF-8 but for a few damaged characters."""
    whole = sum(map(len, _SEQUENCE.findall(head)))
    return whole > 0 and 2 * whole > len(_NOT_ASCII.findall(head))


def _western(head: bytes) -> TextEncoding:
    """Returns the encoding of text that is neither UTF-8 nor UTF-16."""
    name = "latin-1"
    if _ONLY_CP1252.search(head):
        name = "cp1252"
    text = head.decode(name, errors="replace")
    found = len(_NOT_ASCII.findall(head))
    foreign = len(_FOREIGN.findall(text))
    letters = foreign + len(_LETTER.findall(head))
    in_runs = sum(map(len, _RUN.findall(head)))
    is_certain = (
        "\ufffd" not in text
        and foreign <= max(3, _MOST_NOT_ASCII * letters)
        and in_runs <= _MOST_IN_RUNS * max(found, 10)
        and not _ODD_NEIGHBOURS.search(text)
    )
    word = _WORD.search(text)
    return TextEncoding(name, shorten(word[0], 40) if word else "", is_certain)


def transcoded(blocks: Iterable[bytes], path: str, encoding: str) -> Iterator[bytes]:
    """Yields text as UTF-8, block by block.

    Args:
      blocks: the text in its encoding, cut anywhere.
      path: for errors.
      encoding: name of Python's codec.

    Raises:
      DataError: bytes that are no text of the encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    before = 0
    try:
        for block in blocks:
            if text := decoder.decode(block):
                yield text.encode()
            before += len(block)
        if text := decoder.decode(b"", final=True):
            yield text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise DataError(
            f"{path}, after byte {before:,}: found bytes that are not {encoding} ({error.reason}), "
            f"expected text in this encoding. Set 'encoding' of the source, such as "
            f"{', '.join(name for name in COMMON if name != encoding)}."
        ) from error


def start_of_text(head: bytes, source: Source) -> bytes:
    """Returns the beginning of a text as UTF-8, in whole characters."""
    encoding = transcoded_from(source)
    if encoding is None:
        return head
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return decoder.decode(head).encode()


# How such a file begins -> what it is, and the format that reads it, or what to do.
_BEGINNINGS = {
    rb"PK\x03\x04(?s:.{26,60000}?)(?:xl/|docProps/|\[Content_Types\]|vnd\.oasis)"
    rb"|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel workbook", "excel"),
    rb"PK\x03\x04": ("a zip archive", "Give it a name that ends in .zip, or unpack it."),
    rb"PAR1": ("Parquet data", "parquet"),
    rb"ARROW1": ("Arrow data", "arrow"),
    rb"ORC[\x00-\x1f]": ("ORC data", "orc"),
    rb"Obj\x01": ("Avro data", "avro"),
    rb"\x89HDF\r\n": ("HDF5 data", "hdf5"),
    rb"\x93NUMPY": ("a NumPy array", "numpy"),
    rb"SQLite format 3\x00": ("an SQLite database", "Give it a name that ends in .sqlite."),
    rb"%PDF-": ("a PDF document", "Export its table as CSV."),
    rb"\x89PNG|\xff\xd8\xff|GIF8": ("a picture", "images"),
    rb"(?i:(?:\xef\xbb\xbf)?\s*<(?:!doctype|html)[\s>])": (
        "an HTML page",
        "Servers answer so where a login is needed or an address is wrong. Get the file again.",
    ),
}
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*["}]')


def check_is_text(source: Source, path: str, head: bytes) -> None:
    """Checks that a file is neither binary nor markup.

    Args:
      source: that reads it as text.
      path: for messages.
      head: the file's first bytes, decompressed.

    Raises:
      RecipeProblems: it is compressed.
      DataError: it is something else.
    """
    if _XML.match(head):
        raise read_by_pandas(path, ".xml")
    for beginning, (found, reader) in _BEGINNINGS.items():
        if re.match(beginning, head):
            cure = f"Set 'format: {reader}' of the source." if reader.islower() else reader
            raise DataError(f"{path}: found {found}, expected text. {cure}")
    if compression := name_of_start(head):
        if compression not in CODEC_FOR_COMPRESSION:
            raise unread(path, compression)
        message = (
            f"found {compression} data in {path}, expected text. Set 'compression: {compression}' "
            "of the source."
        )
        raise RecipeProblems([problem(source, "compression", message)])


def check_is_no_json(source: Source, path: str, head: bytes) -> None:
    """Checks that delimited text is no JSON.

    Raises:
      RecipeProblems: it is.
    """
    if not _OBJECT.match(head):
        return
    format_ = DOCUMENTS if is_document(head) else "json_lines"
    message = (
        f"found JSON at the beginning of {path}, expected the header of a table. Set 'format: "
        f"{format_}', or 'format: csv' if this is the header."
    )
    raise RecipeProblems([problem(source, "format", message)])

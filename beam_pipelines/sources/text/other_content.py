"""Recognises files that only their names call text."""

from __future__ import annotations

import json
import re

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.compression import (
    CODEC_FOR_COMPRESSION,
    is_xml,
    name_of_start,
    unread,
)
from beam_pipelines.sources.format import problem
from beam_pipelines.sources.text.documents import DOCUMENTS, is_document

# How such a file begins -> what it is, and what to do.
_BEGINNINGS = {
    rb"PK\x03\x04(?s:.{26,60000}?)(?:xl/|docProps/|\[Content_Types\]|vnd\.oasis)": (
        "an Excel workbook",
        "Set 'format: excel' of the source.",
    ),
    rb"PK\x03\x04": ("a zip archive", "Give it a name that ends in .zip, or unpack it."),
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "an Excel workbook",
        "Set 'format: excel' of the source.",
    ),
    rb"PAR1": ("Parquet data", "Set 'format: parquet' of the source."),
    rb"ARROW1": ("Arrow data", "Set 'format: arrow' of the source."),
    rb"ORC[\x00-\x1f]": ("ORC data", "Set 'format: orc' of the source."),
    rb"Obj\x01": ("Avro data", "Set 'format: avro' of the source."),
    rb"\x89HDF\r\n": ("HDF5 data", "Set 'format: hdf5' of the source."),
    rb"\x93NUMPY": ("a NumPy array", "Set 'format: numpy' of the source."),
    rb"SQLite format 3\x00": ("an SQLite database", "Give it a name that ends in .sqlite."),
    rb"%PDF-": ("a PDF document", "Export its table as CSV."),
    rb"\x89PNG|\xff\xd8\xff|GIF8": ("a picture", "Set 'format: images' of the source."),
    rb"(?:\xef\xbb\xbf)?\s*<\?xml\s": (
        "XML",
        "Give it a name that ends in .xml to see what to do.",
    ),
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
        raise is_xml(path)
    for beginning, (found, cure) in _BEGINNINGS.items():
        if re.match(beginning, head):
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
    if format_ == "json_lines":
        try:
            json.loads(head.decode("utf-8-sig", errors="replace").lstrip().splitlines()[0])
        except (ValueError, RecursionError):
            return
    message = (
        f"found JSON at the beginning of {path}, expected the header of a table. Set 'format: "
        f"{format_}', or 'format: csv' if this is the header."
    )
    raise RecipeProblems([problem(source, "format", message)])

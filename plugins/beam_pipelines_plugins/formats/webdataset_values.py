"""The values of WebDataset rows, and why some rows have none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.images.folder import look_at
from beam_pipelines.sources.images.options import PictureError, image_options
from beam_pipelines_plugins.formats.webdataset_layout import (
    KEY,
    ONLY_IMAGE,
    ArchiveSample,
    Member,
    RowLayout,
    image_columns,
    is_image,
    is_number,
    is_object,
    missing,
)

_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")
_MARK = b"\xef\xbb\xbf"
_MOST_SHOWN = 60
_decoder = json.JSONDecoder()


class MemberError(ValueError):
    """A row without values.

    Attributes:
      name: of the file that is wrong.
      column: of the file.
      reason: what was found, expected, and what to do.
      text: the file's text, where it helps.
    """

    def __init__(self, member: Member, column: str, reason: str) -> None:
        super().__init__(reason)
        self.name, self.column, self.reason = member.name, column, reason
        is_text = not is_image(column.rpartition("/")[0])
        shown = member.data[:1_000] if is_text else b""
        self.text = shorten(shown.decode("utf-8", errors="backslashreplace"))


class SampleValues:
    """Values of rows, column by column.

    Attributes:
      first: name of the first file of each row.
      size_bytes: of the files.
      objects: the JSON of each row: a line of an object whose keys are extensions.
    """

    def __init__(self, source: Source, layout: RowLayout) -> None:
        self._source, self._layout = source, layout
        self._options = image_options(source)
        self._fields = layout.plain_fields(source)
        self._columns: dict[str, list[Any]] = {name: [] for name in self._fields.names}
        self.first: list[str] = []
        self.objects: list[bytes] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.first)

    def add(self, sample: ArchiveSample) -> None:
        """Adds a row.

        Raises:
          MemberError: it is bad.
        """
        members = self._members(sample)
        row: dict[str, Any] = {KEY: sample.key}
        for slot, member in members.items():
            if is_image(slot):
                row.update(self._image(slot, member))
            elif is_object(slot):
                continue
            elif is_number(slot, self._source):
                row[slot] = _integer(slot, member)
            elif pa.types.is_string(self._fields.field(slot).type):
                row[slot] = _text(slot, member, f"declare 'types: {{{slot}: bytes}}'")
            else:
                row[slot] = member.data
        line = json_line(members)
        for name, values in self._columns.items():
            values.append(row[name])
        self.objects.append(line)
        self.first.append(sample.first.name)
        self.size_bytes += sample.size_bytes

    def batch(self) -> pa.RecordBatch:
        """Returns all columns but those of JSON."""
        arrays = [pa.array(self._columns[field.name], field.type) for field in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _members(self, sample: ArchiveSample) -> dict[str, Member]:
        """Returns slot -> file."""
        layout = self._layout
        found: dict[str, Member] = {}
        for extension, member in sample.members.items():
            slot = layout.slot_of(extension)
            if slot in found:
                raise MemberError(
                    member,
                    "",
                    f"found a second image in the row '{sample.key}', expected one, as in the rows "
                    "that planning has seen. Mend the archive, or set 'infer: full'.",
                )
            if slot in layout.slots:
                found[slot] = member
            elif layout.is_closed:
                raise MemberError(
                    member,
                    "",
                    f"found a file '.{extension}', which no row has that planning has seen. Name "
                    "the columns to read in 'columns', or set 'infer: full'.",
                )
        lacks = missing(layout, tuple(found))
        if lacks is not None:
            name = "image" if lacks == ONLY_IMAGE else f"'.{lacks}'"
            raise MemberError(
                sample.first,
                "",
                f"found no file {name} in the row '{sample.key}', expected one, as in other rows. "
                "Add it to the archive, or name the columns of the other files in 'columns', which "
                "reads these alone.",
            )
        return found

    def _image(self, slot: str, member: Member) -> dict[str, Any]:
        names = [name for name, _ in image_columns(slot)]
        try:
            data, look = look_at(member.data, self._options, self._source.limits)
        except PictureError as error:
            raise MemberError(member, names[0], str(error)) from error
        return dict(zip(names, (data, *look), strict=True))


def json_line(members: Mapping[str, Member]) -> bytes:
    """Returns the JSON of a row: an object whose keys are extensions.

    Raises:
      MemberError: a file is no JSON.
    """
    values = [
        json.dumps(slot).encode() + b":" + _object(slot, member)
        for slot, member in members.items()
        if is_object(slot)
    ]
    return b"{" + b",".join(values) + b"}"


def _integer(slot: str, member: Member) -> int:
    digits = member.data.strip()
    if _INTEGER.fullmatch(digits) and -(1 << 63) <= int(digits) < 1 << 63:
        return int(digits)
    found = shorten(digits.decode("utf-8", errors="backslashreplace"), _MOST_SHOWN)
    raise MemberError(
        member,
        slot,
        f"found {found!r}, expected an integer. Mend it, or declare 'types: {{{slot}: text}}'.",
    )


def _text(slot: str, member: Member, cure: str) -> str:
    try:
        return member.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MemberError(
            member, slot, f"found bytes that are not UTF-8, expected text. Mend it, or {cure}."
        ) from error


def _object(slot: str, member: Member) -> bytes:
    """Returns JSON on one line.

    Python's parser refuses what stands behind the first value, and line ends in texts, so that
    those left are blanks.
    """
    data = member.data.removeprefix(_MARK).strip()
    text = _text(slot, Member(member.name, data), "get the archive again")
    try:
        _, end = _decoder.raw_decode(text)
        problem = "more behind the first value" if end < len(text) else ""
    except ValueError as error:
        problem = str(error)
    except RecursionError:
        problem = "values that are nested too deeply"
    if problem:
        reason = (
            f"found no JSON ({problem}), expected one value. Mend it, or name the columns of other "
            "files in 'columns', which reads these alone."
        )
        raise MemberError(member, slot, reason)
    return data.replace(b"\r", b" ").replace(b"\n", b" ")

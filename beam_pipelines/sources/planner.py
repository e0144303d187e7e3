"""Plans sources: their files, columns, types and ranges."""

from __future__ import annotations

import collections
import dataclasses
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core import errors, formatting
from beam_pipelines.core.arrow import columns
from beam_pipelines.core.process import plugins
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import FORMATS, format_of, format_of_path, source_format
from beam_pipelines.sources import plan as source_plans
from beam_pipelines.sources.csv.format import check_content
from beam_pipelines.sources.files import compression
from beam_pipelines.sources.files.listing import list_files
from beam_pipelines.sources.images.columns import image_columns
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sources.text.encodings import find_encoding
from beam_pipelines.sources.wrapping.formatted import Formatted, formatted
from beam_pipelines.sources.wrapping.partitions import WithNulls, partitioned, with_nulls


def plan_source(source: Source, directory: str) -> source_plans.SourcePlan:
    """Finds a source's files, columns, types and ranges.

    Reads a sample of the data, or all of it with ``infer: full``.

    Args:
      source: the recipe's source.
      directory: where relative paths start.

    Raises:
      RecipeProblems: the recipe does not fit the files.
      DataError: the data cannot be read.
    """
    owner = _owner_of(source, directory)
    return (
        _plan_files(source, directory) if owner is None else _plan_owned(source, directory, owner)
    )


def _owner_of(source: Source, directory: str) -> str | None:
    """Returns the planner of a source without files, or ``None``."""
    if source.format is not None:
        return source.format if FORMATS.is_planned(source.format) else None
    for name, known in plugins.KNOWN[plugins.PLANNERS].items():
        if known.place in source.options:
            return name
    folder = files.resolve(source.path[0], directory) if len(source.path) == 1 else ""
    claims = plugins.CLAIMS if folder and files.is_local(folder) else {}
    return next((claims[one] for one in claims if os.path.isdir(os.path.join(folder, one))), None)


def _plan_files(source: Source, directory: str) -> source_plans.SourcePlan:
    """Plans a source of files."""
    named = FORMATS.get(source.format) if source.format is not None else None
    found, folders, archives, others, problems = list_files(
        source, directory, named, format_of_path
    )
    name = source.format or (format_of_path(found[0].path) if found else None)
    is_file_a_row = name is not None and name in FORMATS and FORMATS[name].is_file_a_row
    if source.compression is None and not is_file_a_row:
        for file in found:
            compression.check_suffix(file.path)
    if source.format is not None and source.format not in FORMATS:
        message = f"unknown format '{name}'.{errors.nearest(str(name), FORMATS)}"
        problems.append(source_format.problem(source, "format", message))
    elif name is None and found:
        problems.append(source_format.problem(source, "format", _unknown(source, found[0])))
    elif name is not None:
        problems.extend(FORMATS[name].check(source))
        problems.extend(_check_tensors(source, name))
        problems.extend(_check_family(source, name, FORMATS[name].options))
    problems.extend(_check_options(source))
    if problems or name is None:
        raise errors.RecipeProblems(problems)
    path = tuple(files.resolve(pattern, directory) for pattern in source.path)
    source = FORMATS[name].placed(
        dataclasses.replace(source, path=path), lambda path: files.resolve(path, directory)
    )
    for file in found:
        if file.size_bytes == 0 and not is_file_a_row:
            folder = shlex.quote(os.path.dirname(file.path) or ".")
            how = f" To remove all empty files: find {folder} -type f -size 0 -delete"
            raise errors.DataError(
                f"{file.path}: found an empty file, expected data. Leave it out, or check what "
                f"wrote it.{how * os.path.exists(file.path)}"
            )
    has_texts = issubclass(FORMATS[name].Options, TextsOptions)
    inner = Formatted(FORMATS[name]) if has_texts else FORMATS[name]
    format_ = partitioned(inner, folders, found)
    contents = format_.infer(source, found)
    format_, contents = with_nulls(format_, contents, source)
    source = contents.source or source
    name = source.format or name
    number = formatting.show_count(len(found), "file")
    without = f", without {formatting.shorten(', '.join(others), 200)}" if others else ""
    decisions = [f"{number} of {name} in {folder}{without}" for folder in (*folders, *archives)[:1]]
    source_format.check_columns(source, found[0].path, len(contents.names))
    _check_names(source, contents)
    found = contents.files or found
    inner = formatted(FORMATS[name], contents, source) if has_texts else FORMATS[name]
    reader = partitioned(inner, folders, found)
    return source_plans.SourcePlan(
        source=source,
        format=name,
        files=found,
        read_schema=contents.read_schema,
        schema=columns.normalise_schema(contents.read_schema, found[0].path, takes_steps=True),
        ranges=_ranges(source, name, found),
        null_columns=contents.null_columns,
        file_schema=contents.file_schema,
        root=contents.root,
        labels=contents.labels,
        sparse=contents.sparse,
        decisions=(*decisions, *contents.decisions),
        images=contents.images,
        steps=contents.steps,
        reader=dataclasses.replace(format_, format=reader)
        if isinstance(format_, WithNulls)
        else reader,
    )


def _unknown(source: Source, file: source_plans.FileInfo) -> str:
    """Returns the message for a file whose suffix is of no format.

    Raises:
      RecipeProblems: as ``check_content`` raises it.
      DataError: its suffix or its content is of something else that is known.
    """
    path, formats = file.path, ", ".join(FORMATS)
    compression.check_readable(path)
    head = check_content(source, file)
    if b"\0" in head and not find_encoding(head).name.startswith(("utf-16", "utf-32")):
        return (
            f"found no text in {path}, whose suffix is of no format. Set 'format' if one of these "
            f"reads it: {formats}. Else write Parquet or CSV with a program that reads it."
        )
    ways = f"Set 'format: csv' if it is a table of text, or another: {formats}."
    return f"cannot tell the format of {path}. {ways}"


def _plan_owned(source: Source, directory: str, owner: str) -> source_plans.SourcePlan:
    """Plans a source without files, such as a table."""
    planner: source_format.Planner = plugins.load(plugins.PLANNERS, owner)()
    problems = [
        *planner.check(source),
        *_check_family(source, owner, tuple(keys_of(planner.Options))),
        *_check_options(source),
    ]
    if problems:
        raise errors.RecipeProblems(problems)
    plan, contents = planner.plan(source, directory)
    source_format.check_columns(source, plan.files[0].path, len(contents.names))
    _check_names(source, contents)
    if plan.ranges:
        return plan
    return dataclasses.replace(plan, ranges=_ranges(plan.source, plan.format, tuple(plan.files)))


def with_images(
    plan: source_plans.SourcePlan,
    contract: bytes | None,
    rename: Mapping[str, str],
    prefixes: Collection[str] = ("",),
) -> source_plans.SourcePlan:
    """Returns the plan with the columns of images to check.

    There are none if the format checks its images itself.

    Args:
      plan: of a source.
      contract: the recipe's schema, serialized, or ``None``.
      rename: of the recipe: column -> new name.
      prefixes: of the source's columns in the joined rows.
    """
    if format_of(plan).checks_images:
        return plan
    schema = schema_pb2.Schema.FromString(contract or b"")
    images = image_columns(plan.schema, schema, rename, prefixes)
    return dataclasses.replace(plan, images=tuple(dict.fromkeys([*plan.images, *images])))


def _check_family(source: Source, name: str, own: Collection[str]) -> Iterator[errors.Problem]:
    """Yields a problem for each option that only other formats have."""
    for option in source.options:
        if option not in own:
            families = ", ".join(FORMATS.option_names[option])
            message = f"found it with format '{name}', expected it with {families} only."
            yield source_format.problem(source, option, message)


def _check_options(source: Source) -> Iterator[errors.Problem]:
    known = [*compression.CODEC_FOR_COMPRESSION, "zlib", "none"]
    if source.compression is not None and source.compression not in known:
        hint = errors.nearest(source.compression, known)
        message = f"unknown compression '{source.compression}'.{hint}"
        yield source_format.problem(source, "compression", message)
    for name, type_ in source.types.items():
        try:
            columns.parse_type(type_)
        except ValueError as error:
            yield source_format.problem(source, "types", f"column '{name}': {error}")
    for name, number in sorted(collections.Counter(source.columns).items()):
        if number > 1:
            yield source_format.problem(source, "columns", f"column '{name}' is named twice.")


def _check_tensors(source: Source, format_name: str) -> Iterator[errors.Problem]:
    for name, type_ in source.types.items():
        is_array = type_.startswith((columns.TENSOR, columns.RAW))
        if is_array and not FORMATS[format_name].has_arrays:
            message = (
                f"column '{name}': expected another type than {type_}: a {format_name} file holds "
                "no arrays. 'derive' makes raw bytes of columns: {x: 'raw([a, b])'}."
            )
            yield source_format.problem(source, "types", message)


def _check_names(source: Source, contents: source_format.Contents) -> None:
    """Raises ``RecipeProblems`` for named columns that do not exist or are unread."""
    problems = []
    known, read = set(contents.names), set(contents.read_schema.names)
    for key, names in (
        ("columns", source.columns),
        ("types", tuple(source.types)),
        ("formats", tuple(source.options_of(TextsOptions).formats)),
        ("key", tuple(name for name in source.key if name not in source.derive)),
    ):
        for name in names:
            if name not in known:
                hint = errors.nearest_column(name, contents.names)
                problems.append(
                    source_format.problem(
                        source, key, f"there is no column '{name}' in the source.{hint}"
                    )
                )
            elif name not in read:
                cure = f"Add it to 'columns', or take it out of '{key}'."
                problems.append(
                    source_format.problem(source, key, f"column '{name}' is not read. {cure}")
                )
    for number, name in enumerate(contents.names, start=1):
        if name == "" and name in read:
            message = (
                f"column {number} has no name. Name it in the file, or leave it out: list "
                "the others in 'columns'."
            )
            problems.append(source_format.problem(source, "columns", message))
    if problems:
        raise errors.RecipeProblems(problems)


def _ranges(
    source: Source, format_name: str, found: Sequence[source_plans.FileInfo]
) -> Sequence[source_plans.ByteRange]:
    if FORMATS[format_name].is_file_a_row or source_plans.are_small(found):
        return source_plans.gather_ranges(found)
    return _cut(source, FORMATS[format_name], found)


def cut_files(plan: source_plans.SourcePlan) -> source_plans.CutRanges:
    """Returns the ranges of a source, none of several files."""
    return _cut(plan.source, format_of(plan), plan.files)


def _cut(
    source: Source, format_: source_format.Format, found: Sequence[source_plans.FileInfo]
) -> source_plans.CutRanges:
    return source_plans.cut_ranges(
        found, lambda file: not file.archive and format_.splittable(source, file.path)
    )

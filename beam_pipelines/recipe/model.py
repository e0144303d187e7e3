"""The recipe, as frozen values.

Each key of a recipe is declared here once, in the field that holds it: how it is read, its default
and its meaning. ``recipe/reader.py`` reads them from YAML. Field names are the recipe's own keys
where Python allows it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from beam_pipelines.core.errors import masked_repr
from beam_pipelines.core.limits import MOST_NESTING_DEPTH, Limits
from beam_pipelines.recipe import keys, sections, values
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.output import Output, check_output
from beam_pipelines.recipe.protect import Protection, read_protect
from beam_pipelines.recipe.splits import Split
from beam_pipelines.recipe.text.lines import Lines
from beam_pipelines.recipe.unions import Union, derive_key

T = TypeVar("T")


class Planning(NamedTuple):
    """Facts of a source that planning adds to its keys.

    Attributes:
      limits: the recipe's.
      keeps_steps: feature lists stay feature lists, with their steps, as no recipe says what
        becomes of them.
      may_lack: column -> type of columns that files may lack; such a column is null.
      pinned: columns with the types of a dataset, which its recipe does not declare.
    """

    limits: Limits = Limits()
    keeps_steps: bool = False
    may_lack: Mapping[str, str] = {}
    pinned: frozenset[str] = frozenset()


@masked_repr
@dataclasses.dataclass(frozen=True)
class Source:
    """One named input table.

    Attributes:
      name: the source's name in the recipe.
      options: key of the ``Options`` of a format or planner, or ``union`` -> its value.
      planning: what the recipe does not say of the source (not part of the hash).
    """

    name: str
    path: tuple[str, ...] = keys.recipe_key(
        values.read_texts,
        (),
        "needed without `url`",
        "File patterns of Beam's filesystems; {date} is the recipe's date (recipe/path_dates.py).",
    )
    format: str | None = keys.recipe_key(
        values.read_text, None, "by suffix", "Key of ``sources.FORMATS``."
    )
    compression: str | None = keys.recipe_key(
        values.read_choice(("gzip", "bzip2", "zstd", "zlib", "none")),
        None,
        "by suffix",
        "Compression of the files; zlib of TFRecord only.",
    )
    key: tuple[str, ...] = keys.plain_key(
        values.read_texts, (), "Columns whose combined value must be unique in this source."
    )
    columns: tuple[str, ...] = keys.recipe_key(
        values.read_texts,
        (),
        "all",
        "Without a header the names of all columns, in file order; else the columns to read.",
    )
    nulls: tuple[str, ...] = keys.recipe_key(
        values.read_any_texts,
        ("", "NA", "NULL", "null", "NaN", "nan", "N/A", "n/a"),
        '`["", NA, "NULL", "null", NaN, nan, N/A, n/a]`',
        "Texts that mean null, exactly as written, quoted or not.",
    )
    types: Mapping[str, str] = keys.recipe_key(
        values.read_types, {}, "inferred", "Column types, as ``columns.parse_type`` reads them."
    )
    infer: Literal["sample", "full", "lenient"] = keys.plain_key(
        values.read_choice(("sample", "full", "lenient")),
        "sample",
        "Whether types are inferred from the beginning of the files or from every row.",
    )
    derive: Mapping[str, str] = derive_key()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    planning: Planning = dataclasses.field(default=Planning(), compare=False)

    @property
    def reads_all(self) -> bool:
        """Whether types are inferred from every row."""
        return self.infer != "sample"

    @property
    def limits(self) -> Limits:
        """The limits of every input."""
        return self.planning.limits

    @property
    def union(self) -> Union | None:
        """The sources whose rows are those of this one, or ``None``."""
        found: Union | None = keys.built(Union, self.options.get("union"))
        return found

    def options_of(self, kind: type[T]) -> T:
        """Returns what the source says of the keys that a format declares.

        Args:
          kind: ``Options`` of the format, or a base of it.
        """
        given = {key: self.options[key] for key in keys.hints_of(kind) if key in self.options}
        found: T = keys.built(kind, given)
        return found

    def with_options(self, **options: Any) -> Source:
        """Returns the source with other values of its format's keys.

        ``None`` and an empty mapping stand for a key that is not there.
        """
        given = {**self.options, **options}
        given = {key: value for key, value in given.items() if value is not None and value != {}}
        return dataclasses.replace(self, options=given)

    def with_planning(self, **planning: Any) -> Source:
        """Returns the source as planning knows it."""
        return dataclasses.replace(self, planning=self.planning._replace(**planning))


# core/ knows no recipe, so the keys of its Limits are declared here.
keys.declare(
    Limits,
    keys.Key("line_bytes", values.read_bytes, "`64 MiB`", "Bytes of a text record or a TFRecord."),
    keys.Key(
        "cell_bytes",
        values.read_bytes,
        "`64 MiB`",
        "Bytes of a value; of a list, of all its values.",
    ),
    keys.Key(
        "nesting_depth", values.read_integer(1, MOST_NESTING_DEPTH), "64", "Depth of nested values."
    ),
    keys.Key(
        "image_pixels", values.read_integer(1), "50,000,000", "Height times width of an image."
    ),
    keys.Key(
        "decompression_ratio",
        values.read_integer(1),
        "900",
        "Decompressed bytes for each compressed one, after the first 64 MiB.",
    ),
    keys.Key("columns", values.read_integer(1), "50,000", "Columns of a source, nested ones flat."),
    keys.Key("archive_files", values.read_integer(1), "100,000", "Files in one archive."),
    keys.Key(
        "derived_bytes",
        values.read_bytes,
        "`512 MiB`",
        "Bytes of a derived column in a chunk of rows.",
    ),
)


@masked_repr
@dataclasses.dataclass(frozen=True)
class Recipe:
    """A whole conversion.

    Attributes:
      base: the recipe's ``from``.
      encode: feature -> chain of (kind, parameters).
      checks: key of a check -> its options (part of the hash where they change rows).
      hidden: columns whose values these checks hide.
      directory: where relative paths start: the recipe file's own folder (not part of the hash).
      date: the date that ``{date}`` in the sources' paths stands for, or ``None`` (not part of the
        hash: it is one recipe for all dates).
      lines: lines of the keys, for errors (not part of the hash).
    """

    name: str = keys.needed_key(
        values.read_name, "Name of the dataset, and prefix of shard files.", "flights"
    )
    sources: Mapping[str, Source] = keys.needed_key(
        keys.ELSEWHERE, "The inputs by name.", "{flights: data/flights.csv}"
    )
    base: str = keys.recipe_key(
        values.read_text,
        "",
        "the only source",
        "The source whose rows become examples.",
        name="from",
    )
    join: tuple[Join, ...] = keys.plain_key(keys.ELSEWHERE, (), "Joins, applied in order.")
    rename: Mapping[str, str] = keys.plain_key(
        values.read_mapping, {}, "Column: new name, after the joins and before all below."
    )
    filter: str | None = keys.recipe_key(
        values.read_text,
        None,
        "keeps all rows",
        "SQL condition; rows for which it is not true are filtered out, before joins if it can be.",
    )
    derive: Mapping[str, str] = keys.plain_key(
        values.read_mapping, {}, "New column: SQL expression, in order; each sees those above it."
    )
    protect: Mapping[str, Protection] = keys.plain_key(
        read_protect, {}, "Hashes or drops values before the keys below see them.", omitted=True
    )
    drop: tuple[str, ...] = keys.plain_key(
        values.read_texts, (), "Columns to leave out, after derive."
    )
    keep: tuple[str, ...] = keys.recipe_key(
        values.read_texts,
        (),
        "all columns",
        "The only columns to keep, after derive; not with drop.",
    )
    sequence: sections.Sequences | None = keys.plain_key(
        keys.section(
            sections.Sequences,
            "a mapping such as {group_by: user, order_by: time} or {features: [tokens]}",
            sections.check_sequence,
        ),
        None,
        "How records become tf.SequenceExamples.",
    )
    encode: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = keys.recipe_key(
        keys.ELSEWHERE,
        {},
        "values stay as they are",
        "Feature: encodings, in order; each entry sees the features above it.",
    )
    fit: sections.Fit = keys.recipe_key(
        keys.section(sections.Fit, "a mapping such as {splits: [train], weight: importance}"),
        sections.Fit(),
        "the split `train`",
        "What encodings are fitted on.",
    )
    preprocessing_fn: str | None = keys.plain_key(
        values.read_text,
        None,
        "Path of a Python module with a function of that name, which runs after encode.",
    )
    label: str | None = keys.plain_key(
        values.read_text, None, "Name of the label feature. A null label is an error."
    )
    allow_anomalies: tuple[str, ...] = keys.plain_key(
        values.read_texts, (), "Anomalies that are accepted: TYPE or FEATURE:TYPE.", omitted=True
    )
    sample: sections.Sample | None = keys.plain_key(
        sections.read_sample, None, "How many rows of each class a split keeps.", omitted=True
    )
    split: Split = keys.recipe_key(keys.ELSEWHERE, Split(), "`{train: 1}`", "How rows are divided.")
    schema: str | None = keys.recipe_key(
        values.read_text, None, "inferred", "Path of the TFMD schema that the data have to meet."
    )
    statistics: sections.Statistics = keys.recipe_key(
        keys.section(
            sections.Statistics, "a mapping such as {weight: importance, slice_by: [country]}"
        ),
        sections.Statistics(),
        "none",
        "Weights, slices and columns of the statistics.",
    )
    on_error: sections.OnError = keys.recipe_key(
        keys.section(sections.OnError, "a mapping such as {reject: 0.1%}"),
        sections.OnError(),
        "`{reject: 0}`",
        "What a bad row does.",
    )
    limits: Limits = keys.recipe_key(
        keys.section(Limits, "a mapping such as {line_bytes: 256 MiB}"),
        Limits(),
        "see there",
        "What no input may exceed.",
    )
    output: Output = keys.recipe_key(
        keys.section(Output, "a mapping such as {shard_size: 128 MiB}", check_output),
        Output(),
        "see there",
        "How shards are written.",
    )
    checks: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    hidden: tuple[str, ...] = dataclasses.field(default=(), metadata={"omitted": True})
    directory: str = dataclasses.field(default="", compare=False)
    date: datetime.date | None = dataclasses.field(default=None, compare=False)
    lines: Lines = dataclasses.field(default=Lines(), compare=False, repr=False)

    @property
    def private(self) -> tuple[str, ...]:
        """Columns whose values no message, statistic or report shows."""
        return (*self.protect, *self.hidden)

    @property
    def rejects(self) -> bool:
        """Whether bad rows are gathered, to allow or to hide them."""
        return self.on_error.reject > 0 or bool(self.private)

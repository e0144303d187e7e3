"""The recipe: what to read, join, select, encode, split and write. Frozen values, no behaviour.

``recipe/reader.py`` reads them from YAML; every later module takes them as they are. Field names
are the recipe's own keys where Python allows it.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_type_hints

from beam_pipelines.core.errors import mask
from beam_pipelines.core.limits import MIB, Limits
from beam_pipelines.recipe.lines import Lines

Compression = Literal["gzip", "zlib", "none"]
Floats = Literal["round", "exact"]
JoinHow = Literal["left", "inner"]
JoinStrategy = Literal["auto", "broadcast", "hash"]

# That a recipe may ask for by number, of a split: 128 TB of the usual size.
MOST_SHARDS = 1_000_000
# Fields that may hold URLs.
_PATHS = ("path", "labels", "schema", "preprocessing_fn")


@dataclasses.dataclass(frozen=True)
class Libsvm:
    """Options of ``libsvm``, ``libfm`` and ``libffm`` sources.

    Attributes:
      base: the first index in the files, 0 or 1; ``None``: the format's, 1 of libsvm and else 0.
      size: number of indices, which none may exceed; ``None`` learns it from the data.
      fields: the same of the fields of libffm.
      name: of the sparse feature, and prefix of its columns.
    """

    base: int | None = None
    size: int | None = None
    fields: int | None = None
    name: str = "features"


@dataclasses.dataclass(frozen=True)
class ImageOptions:
    """What becomes of the files of an ``images`` source. By default their bytes are kept.

    Attributes:
      resize: (height, width) in pixels that all images are resized to, whatever their proportions;
        empty: they keep theirs.
      format: what images are encoded as, ``None``: JPEG stays JPEG and anything else becomes PNG,
        if an image has to be encoded anew.
      mode: ``rgb`` or ``grey``, without alpha; ``None`` keeps the channels (JPEG has no alpha).
      quality: of JPEG, 1 to 100.
      classes: names of the class folders, by id; empty: those that are there, in order of their
        names.
    """

    resize: tuple[int, ...] = ()
    format: Literal["png", "jpeg"] | None = None
    mode: Literal["rgb", "grey"] | None = None
    quality: int = 90
    classes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether images may have to be encoded anew."""
        return bool(self.resize or self.format or self.mode)


@dataclasses.dataclass(frozen=True)
class IdxOptions:
    """What becomes of the numbers of an ``idx`` source, and where their labels are.

    Attributes:
      form: the recipe's ``as``; ``None``: pictures of unsigned bytes are PNG, other numbers stay
        numbers.
      labels: the files with the labels, one for each file of the source, in order; ``None`` finds
        them by their names; empty: none.
      classes: names of the classes, by label; empty: nobody knows them.
    """

    form: Literal["png", "bytes", "floats", "values"] | None = None
    labels: tuple[str, ...] | None = None
    classes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Source:
    """One named input table.

    Attributes:
      name: the source's name in the recipe.
      path: file patterns, as Beam's filesystems understand them; ``{date}`` in them stands for the
        recipe's date (``recipe/dates.py``).
      format: key of ``sources.FORMATS``, or ``None`` to go by the file's suffix.
      compression: ``None`` goes by suffix (``.gz``, ``.bz2``, ``.zst``); else ``gzip``, ``bzip2``,
        ``zstd``, ``zlib`` (TFRecord only) or ``none``.
      key: columns whose combined value must be unique in this source; empty when nothing is
        promised.
      delimiter, quote: one character each; ``None`` takes the format's default (CSV ``,`` and
        ``"``; TSV tab); quote ``""`` turns quoting off.
      header: whether the first line of each file names the columns.
      columns: names the columns, in file order, when ``header`` is false; else selects and orders
        the ones to read.
      nulls: texts that mean null, exactly as written, quoted or not.
      types: declared column types, as ``columns.parse_type`` reads them; others are inferred.
      infer: ``sample`` looks at the beginning of some files, ``full`` at every row.
      schema: path of a TFMD schema, for ``tfrecord`` sources.
      libsvm: options of ``libsvm``, ``libfm`` and ``libffm`` sources.
      image: options of ``images`` sources.
      idx: options of ``idx`` sources.
      limits: the recipe's, which planning puts here.
    """

    name: str
    path: tuple[str, ...]
    format: str | None = None
    compression: str | None = None
    key: tuple[str, ...] = ()
    delimiter: str | None = None
    quote: str | None = None
    header: bool = True
    columns: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ("", "NA", "NULL", "null", "NaN", "nan", "N/A", "n/a")
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    infer: Literal["sample", "full"] = "sample"
    schema: str | None = None
    libsvm: Libsvm = Libsvm()
    image: ImageOptions = ImageOptions()
    idx: IdxOptions = IdxOptions()
    limits: Limits = dataclasses.field(default=Limits(), compare=False)


@dataclasses.dataclass(frozen=True)
class Join:
    """One step of the join chain: the rows so far on the left, ``source`` on the right.

    Attributes:
      source: name of the right source.
      on: pairs (left column, right column), at least one.
      how: ``left`` keeps unmatched left rows with nulls, ``inner`` drops them.
      prefix: put before the names of the right source's columns (its key columns are not added).
      strategy: ``auto`` decides by the right source's size.
    """

    source: str
    on: tuple[tuple[str, str], ...]
    how: JoinHow = "left"
    prefix: str = ""
    strategy: JoinStrategy = "auto"


@dataclasses.dataclass(frozen=True)
class TimeSplit:
    """A split by time: rows with ``after <= column < before``; a bound that is ``None`` does not
    bind.

    Bounds are ISO 8601 texts, compared as the column's own type (date, timestamp, or a number for
    number columns).
    """

    name: str
    after: str | None
    before: str | None


@dataclasses.dataclass(frozen=True)
class Split:
    """How rows are divided. Exactly one of the three kinds is set.

    Attributes:
      fractions: split name -> share; shares add up to 1.
      by: columns whose hash decides with ``fractions``; empty: the whole row.
      time_column, times: splits by time. A row in none of them, or with a null, is an error.
      files: split name -> pattern, matched (fnmatch) against the path of the ``from`` source's
        file.
    """

    fractions: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"train": 1.0})
    by: tuple[str, ...] = ()
    time_column: str | None = None
    times: tuple[TimeSplit, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Split names in the recipe's order."""
        return tuple(self.files) or tuple(time.name for time in self.times) or tuple(self.fractions)


@dataclasses.dataclass(frozen=True)
class Output:
    """How shards are written.

    Attributes:
      shard_size: target bytes of a shard file, compressed.
      num_shards: shards of every split; overrides ``shard_size``.
      shards_multiple_of: round the number of shards up to a multiple of this.
      compression: of shard files.
      level: compression level, 0-9: 0-3 by isal, 4-9 by zlib-ng, slower and smaller.
      shuffle: global shuffle; ``False`` keeps source order.
      shuffle_seed: seed of the shuffle and of nothing else.
      floats: what becomes of a float64 that has no equal float32: ``round`` takes the nearest one,
        ``exact`` makes it an error.
      record: column whose values are the records themselves; ``None`` writes tf.Examples.
    """

    shard_size: int = 128 * MIB
    num_shards: int | None = None
    shards_multiple_of: int = 1
    compression: Compression = "gzip"
    level: int = 1
    shuffle: bool = True
    shuffle_seed: int = 0
    floats: Floats = "round"
    record: str | None = None


@dataclasses.dataclass(frozen=True)
class Sequences:
    """How records become tf.SequenceExamples. At least one of ``features`` and ``group_by`` is set.

    Attributes:
      features: names of the features that are feature lists, with one step for each value; empty:
        all lists that grouping made.
      group_by: key columns: the selected rows that share a key become one row; empty: rows stay as
        they are.
      order_by: columns that order the rows of a key; rows that tie, or all if it is empty, keep the
        source's order.
      context: columns with one value for all rows of a key. The others become lists, with one value
        for each row.
      max_length: rows of a sequence at most; more make several sequences, one after the other.
        ``None``: any number.
    """

    features: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    max_length: int | None = None


@dataclasses.dataclass(frozen=True)
class OnError:
    """What a bad row does.

    Attributes:
      reject: how many of a source's rows may be rejected: a whole number of rows, or a share of
        them between 0 and 1; 0 fails at the first.
    """

    reject: int | float = 0


@dataclasses.dataclass(frozen=True)
class Fit:
    """What encodings are fitted on.

    Attributes:
      splits: names of splits; empty: ``train`` if there is one, else the first.
      weight: column with the weight of each row, or ``None``: all weigh the same.
    """

    splits: tuple[str, ...] = ()
    weight: str | None = None


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What is computed beside the statistics of all rows.

    Attributes:
      weight: column with the weight of each row, or ``None``: nothing is weighted.
      slice_by: columns, each of whose values gets statistics of its own.
    """

    weight: str | None = None
    slice_by: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A whole conversion.

    Attributes:
      name: name of the dataset, and the prefix of shard files.
      sources: the inputs by name.
      base: the recipe's ``from``: the source whose rows become examples.
      join: chain of joins, applied in order.
      filter: SQL condition; rows where it is not true are filtered out. ``None`` keeps all.
      derive: new column -> SQL expression, in order; each may use the ones before it.
      drop, keep: columns to leave out, or the only ones to keep (after ``derive``); at most one is
        set.
      sequence: how records become tf.SequenceExamples; ``None``: they are tf.Examples.
      encode: feature -> chain of (kind, parameters), in order; each may use the features before it.
      fit: what encodings are fitted on.
      preprocessing_fn: path of a Python module with a function of that name, which runs after
        ``encode``; ``None``: no code.
      label: name of the label feature, if any. A null label is an error.
      schema: path of the TFMD schema that is the contract; ``None`` infers one.
      split, statistics, on_error, limits, output: see their classes.
      append: whether a run into a dataset of this recipe adds the files that are new (not part of
        the recipe's hash: it says nothing about the rows).
      directory: where relative paths start: the recipe file's own folder (not part of the recipe's
        hash).
      date: the day that ``{date}`` in the sources' paths stands for, or ``None`` (not part of the
        recipe's hash: it is one recipe for all days).
      lines: lines of the keys, for errors (not part of the recipe's hash).
    """

    name: str
    sources: Mapping[str, Source]
    base: str
    join: tuple[Join, ...] = ()
    filter: str | None = None
    derive: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    sequence: Sequences | None = None
    encode: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = dataclasses.field(
        default_factory=dict
    )
    fit: Fit = dataclasses.field(default_factory=Fit)
    preprocessing_fn: str | None = None
    label: str | None = None
    split: Split = dataclasses.field(default_factory=Split)
    schema: str | None = None
    statistics: Statistics = dataclasses.field(default_factory=Statistics)
    on_error: OnError = dataclasses.field(default_factory=OnError)
    limits: Limits = dataclasses.field(default_factory=Limits)
    output: Output = dataclasses.field(default_factory=Output)
    append: bool = dataclasses.field(default=False, compare=False)
    directory: str = dataclasses.field(default="", compare=False)
    date: datetime.date | None = dataclasses.field(default=None, compare=False)
    lines: Lines = dataclasses.field(default=Lines(), compare=False, repr=False)


def normalised(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as JSON-ready data: every default filled in, secrets in paths masked;
    ``append``, directory and date left out.
    """

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: masked(field.name, plain(getattr(value, field.name)))
                for field in dataclasses.fields(value)
                if field.compare
            }
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, (datetime.date, datetime.datetime)):
            return value.isoformat()
        return value

    def masked(name: str, value: Any) -> Any:
        if name not in _PATHS:
            return value
        return [mask(item) for item in value] if isinstance(value, list) else value and mask(value)

    result: dict[str, Any] = plain(recipe)
    return result


def from_normalised(data: Mapping[str, Any], directory: str) -> Recipe:
    """Returns the recipe of which ``normalised`` made this data.

    Raises:
      KeyError, TypeError, ValueError, AttributeError: the data are of no recipe.
    """
    recipe: Recipe = dataclasses.replace(_built(Recipe, data), directory=directory)
    return recipe


def _built(kind: Any, value: Any) -> Any:
    """Returns what ``normalised`` made plain: a value of a type as the classes above annotate
    it.
    """
    if dataclasses.is_dataclass(kind) and value is not None:
        hints = get_type_hints(kind)
        return kind(**{name: _built(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    arguments = get_args(kind)
    if value is not None and type(None) in arguments:
        return _built(next(argument for argument in arguments if argument is not type(None)), value)
    if isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[1:] in ((), (...,)) else arguments
        return tuple(
            _built(own, item) for own, item in zip(kinds or [Any] * len(value), value, strict=True)
        )
    if isinstance(value, dict) and len(arguments) == 2:
        return {name: _built(arguments[1], item) for name, item in value.items()}
    return value


def recipe_hash(recipe: Recipe) -> str:
    """Returns the SHA-256 (hex) of the normalised recipe, in which the order of derived columns and
    encodings counts.
    """
    text = json.dumps(
        [normalised(recipe), list(recipe.derive), list(recipe.encode)],
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()

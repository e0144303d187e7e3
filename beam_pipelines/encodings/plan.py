"""Plans a recipe's encodings: chains, and passes that fit them.

Chains are in the recipe's order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from beam_pipelines.core.arrow.columns import has_lists_as_steps, shape_of, type_name, value_type
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, nearest, nearest_column
from beam_pipelines.core.layout.id_names import is_of_ids
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.encodings import ENCODING_FOR_KIND, Encoding, Feature, Fitted
from beam_pipelines.encodings.analyzers import Moments, Quantiles
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.kinds.column import Column, Drop
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.output import Floats
from beam_pipelines.recipe.sections import Fit

if TYPE_CHECKING:
    from beam_pipelines.encodings.stored import FittedSteps


@dataclasses.dataclass(frozen=True)
class Step:
    """One encoding of a chain.

    Attributes:
      kind: its name in the recipe.
      encoding: declared, or after its pass fitted.
      read: number of the pass that fits it, from 0; without an analyzer, the first pass in which
        its input is known.
    """

    kind: str
    encoding: Encoding | Fitted
    read: int

    @property
    def declared(self) -> Encoding:
        """The encoding of a step that is not fitted yet."""
        return cast("Encoding", self.encoding)

    @property
    def fitted(self) -> Fitted:
        """The encoding of a step that needs no fitting or is fitted."""
        return cast("Fitted", self.encoding)


@dataclasses.dataclass(frozen=True)
class Chain:
    """The steps that make one feature.

    Attributes:
      name: the feature.
      inputs: names of its input features, after the chains before it.
      steps: applied in order; only the first may take several inputs.
    """

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True)
class EncodePlan(PickledOnce):
    """The encodings of all columns.

    Attributes:
      columns: the selected columns, before encoding.
      chains: in the order in which they are evaluated; a chain's feature replaces one of the same
        name.
      written: names of the features of an example: columns in their order, then new ones.
      fit: splits to fit on.
      floats: see ``recipe.Output``.
      lists: names of the written features that are feature lists of a tf.SequenceExample; empty:
        records are tf.Examples.
      is_raw: whether the values of the only feature in ``written`` are the records.
      sizes: column of ids -> number of ids, where the source knows it.
      ids: columns that are keys of the recipe or named like ids.
    """

    columns: pa.Schema
    chains: tuple[Chain, ...]
    written: tuple[str, ...]
    fit: Fit = dataclasses.field(default_factory=Fit)
    floats: Floats = "round"
    lists: tuple[str, ...] = ()
    is_raw: bool = False
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ids: frozenset[str] = frozenset()

    @property
    def reads(self) -> int:
        """Number of passes that fit encodings.

        It is one for most recipes, and one more where an encoding is fitted on a fitted one's
        output.
        """
        return 1 + max(
            (step.read for chain in self.chains for step in chain.steps if needs_fit(step)),
            default=-1,
        )

    @property
    def changes(self) -> bool:
        """Whether the written features differ from the columns."""
        return bool(self.chains) or (self.written != tuple(self.columns.names) and not self.is_raw)

    @property
    def is_fitted(self) -> bool:
        """Whether no encoding needs fitting."""
        return not any(needs_fit(step) for chain in self.chains for step in chain.steps)

    def known(self) -> dict[str, Feature]:
        """Returns the features of the columns, as known at planning."""
        return {
            field.name: _known_feature(field, self.sizes.get(field.name)) for field in self.columns
        }

    def features(self, columns: Mapping[str, Feature] | None = None) -> dict[str, Feature]:
        """Returns the written features; before fitting, as far as they are known.

        Args:
          columns: features of columns, known better than by their types.

        Raises:
          DataError: an encoding cannot take the feature that the data turned out to be.
        """
        known = self.known() | dict(columns or {})
        dict(self._inputs(known))
        return {name: known[name].written for name in self.written}

    def step_inputs(self) -> dict[tuple[int, int], tuple[Feature, ...]]:
        """Returns the inputs of steps, as far as they are known.

        Keys are the numbers of the chain and of the step.
        """
        return dict(self._inputs(self.known()))

    def _inputs(
        self, known: dict[str, Feature]
    ) -> Iterator[tuple[tuple[int, int], tuple[Feature, ...]]]:
        """Yields the inputs of steps, and adds what chains make to ``known``."""
        for number, chain in enumerate(self.chains):
            features = tuple(known[name] for name in chain.inputs)
            for index, step in enumerate(chain.steps):
                yield (number, index), features
                features = (_output(chain, step, features),)
            known[chain.name] = features[0]


def _known_feature(field: pa.Field, size: int | None) -> Feature:
    shape = shape_of(field)
    return dataclasses.replace(
        Feature.of(field.type), size=size, length=None if shape is None else math.prod(shape)
    )


def _output(chain: Chain, step: Step, features: tuple[Feature, ...]) -> Feature:
    try:
        return step.encoding.output(*features)
    except ValueError as error:
        raise DataError(f"feature '{chain.name}', {step.kind}: {error}") from error


def without_lists_of_lists(plan: EncodePlan) -> tuple[EncodePlan, frozenset[str]]:
    """Returns the plan without columns of lists of lists, and their names.

    No chain has one as its input.
    """
    names = frozenset(field.name for field in plan.columns if has_lists_as_steps(field.type))
    kept = dataclasses.replace(
        plan,
        columns=pa.schema([field for field in plan.columns if field.name not in names]),
        written=tuple(name for name in plan.written if name not in names),
        lists=tuple(name for name in plan.lists if name not in names),
    )
    return (kept, names) if names else (plan, names)


def needs_fit(step: Step) -> bool:
    """Whether a step is not fitted yet."""
    return isinstance(step.encoding, Encoding) and step.encoding.analyzer is not None


def plan_encode(
    recipe: Recipe, schema: pa.Schema, sizes: Mapping[str, int] | None = None
) -> EncodePlan:
    """Checks the recipe's ``encode``, ``fit`` and ``label`` against the selected columns.

    Args:
      recipe: as it is.
      schema: of the selected columns.
      sizes: column of ids -> number of ids, where the source knows it.

    Raises:
      RecipeProblems: unknown columns, wrong parameters, chains whose types do not fit, vectors of
        unknown length.
    """
    columns = EncodePlan(schema, (), (), sizes=sizes or {}, ids=_ids(recipe, schema))
    planner = _Planner(columns)
    for name, steps in recipe.encode.items():
        chain = []
        for kind, parameters in steps:
            try:
                chain.append((kind, ENCODING_FOR_KIND[kind].of(parameters)))
            except ValueError as error:
                planner.problems.append(Problem(("encode", name), f"{kind}: {error}"))
        if len(chain) == len(steps):
            planner.add(name, chain)
    problems = planner.problems
    # A label that a ``preprocessing_fn`` makes is checked after its analysis.
    if (
        recipe.label is not None
        and recipe.label not in planner.written
        and recipe.preprocessing_fn is None
    ):
        problems.append(
            Problem(
                ("label",),
                f"unknown column '{recipe.label}'.{nearest_column(recipe.label, planner.written)}",
            )
        )
    if not planner.written:
        problems.append(Problem((), "no column is left to write. Check 'keep' and 'drop'."))
    problems.extend(_record_problems(recipe, schema))
    fit = _plan_fit(recipe, problems)
    if problems:
        raise RecipeProblems(problems)
    record, floats = recipe.output.record, recipe.output.floats
    if record is not None:
        return EncodePlan(schema, (), (record,), fit, floats, is_raw=True)
    chains, written = tuple(planner.chains), tuple(planner.written)
    return with_fitted(
        dataclasses.replace(columns, chains=chains, written=written, fit=fit, floats=floats), {}
    )


def _ids(recipe: Recipe, schema: pa.Schema) -> frozenset[str]:
    """Returns columns of numbers that are keys or named like ids."""
    keys = {recipe.rename.get(left, left) for join in recipe.join for left, _ in join.on}
    keys.update(recipe.split.by, recipe.sequence.group_by if recipe.sequence else ())
    return frozenset(
        field.name
        for field in schema
        if value_type(field.type) in (pa.int64(), pa.float64())
        and (field.name in keys or is_of_ids(field.name))
    )


def _record_problems(recipe: Recipe, schema: pa.Schema) -> Iterator[Problem]:
    """Yields the problems of ``output.record``.

    The column's values are the records, without features.
    """
    record, path = recipe.output.record, ("output", "record")
    if record is None:
        return
    if record not in schema.names:
        yield Problem(path, f"unknown column '{record}'.{nearest_column(record, schema.names)}")
    elif schema.field(record).type not in (pa.string(), pa.binary()):
        found = type_name(schema.field(record).type)
        yield Problem(
            path, f"column '{record}' is {found}, expected text or bytes, which a record can be."
        )
    for key, given in (
        ("encode", recipe.encode),
        ("preprocessing_fn", recipe.preprocessing_fn),
        ("label", recipe.label),
        ("sequence", recipe.sequence),
    ):
        if given:
            yield Problem(
                path,
                f"found it with '{key}', expected one of them: of raw records nothing is written "
                "but one column.",
            )


def _plan_fit(recipe: Recipe, problems: list[Problem]) -> Fit:
    """Returns the recipe's ``fit``; default split: ``train``, or else the first one."""
    names, fit = recipe.split.names, recipe.fit
    problems.extend(
        Problem(("fit", "splits"), f"unknown split '{split}'.{nearest(split, names)}")
        for split in fit.splits
        if split not in names
    )
    return (
        fit
        if fit.splits
        else dataclasses.replace(fit, splits=("train",) if "train" in names else names[:1])
    )


@dataclasses.dataclass(frozen=True)
class _Known:
    """A feature at planning, and the first pass that knows it.

    ``is_pending``: known but for nulls, which an encoding fitted in this pass fills.
    """

    feature: Feature
    read: int = 0
    is_pending: bool = False

    @property
    def read_complete(self) -> int:
        return self.read + self.is_pending


class _Planner:
    """Adds chains one by one and collects their problems."""

    def __init__(self, columns: EncodePlan) -> None:
        self.problems: list[Problem] = []
        self.chains: list[Chain] = []
        self.written = dict.fromkeys(columns.columns.names)  # in order, and quick to look into
        self._known = {name: _Known(feature) for name, feature in columns.known().items()}

    def add(self, name: str, encodings: list[tuple[str, Encoding]]) -> None:
        """Adds an entry's chain, or one chain for each of its parts."""
        first = encodings[0][1]
        if isinstance(first, Drop):
            self._drop(name, encodings)
            return
        inputs = first.inputs or (name,)
        unknown = [column for column in inputs if column not in self._known]
        for column in unknown:
            hint = "" if first.inputs else " For a new feature, begin with {column: …}."
            self._wrong(
                name, f"unknown column '{column}'.{nearest_column(column, self._known)}{hint}"
            )
        for column in dict.fromkeys((name, *inputs)):
            if column in self._known and has_lists_as_steps(self._known[column].feature.type):
                unknown.append(column)
                self._wrong(
                    name,
                    f"found {type_name(self._known[column].feature.type)} in '{column}', expected "
                    "values or lists of them: no encoding takes the steps of a feature list that "
                    "are lists.",
                )
        chain = encodings[1:] if isinstance(first, Column) else encodings
        for kind, encoding in chain[:-1]:
            if "" not in encoding.parts():
                unknown.append(kind)
                self._wrong(
                    name,
                    f"{kind}: found an encoding after it, expected none: it makes several "
                    "features.",
                )
        if unknown:
            return
        for suffix, part in _in_parts(chain).items():
            self._add_chain(name, name + suffix, inputs, part)
        replaced = [] if not chain or "" in chain[-1][1].parts() else [name]
        consumed = [column for column in inputs if column != name] if first.consumes else []
        for feature in (*replaced, *consumed):
            self.written.pop(feature, None)

    def _drop(self, name: str, encodings: list[tuple[str, Encoding]]) -> None:
        if name not in self.written:
            self._wrong(name, f"drop: unknown feature '{name}'.{nearest(name, self.written)}")
        elif len(encodings) > 1:
            self._wrong(
                name, "drop: found an encoding after it, expected none: nothing is written."
            )
        else:
            del self.written[name]

    def _add_chain(
        self, entry: str, name: str, inputs: tuple[str, ...], encodings: list[tuple[str, Encoding]]
    ) -> None:
        known = [
            _Known(item.feature, item.read_complete)
            for item in (self._known[column] for column in inputs)
        ]
        steps: list[Step] = []
        for index, (kind, encoding) in enumerate(encodings):
            if index and (encoding.inputs or isinstance(encoding, Drop)):
                self._wrong(
                    entry, f"{kind}: found it inside a chain, expected it as the first step."
                )
                return
            step = self._step(entry, kind, encoding, known)
            if step is None:
                return
            steps.append(step[0])
            known = [step[1]]
        self.chains.append(Chain(name, inputs, tuple(steps)))
        self._known[name] = known[0]
        self.written.setdefault(name)

    def _step(
        self, entry: str, kind: str, encoding: Encoding, known: list[_Known]
    ) -> tuple[Step, _Known] | None:
        features = tuple(item.feature for item in known)
        try:
            if isinstance(encoding, Fixed):
                given = encoding.given(*features)
                feature = given.output(*features)
                if not any(item.read for item in known):
                    given.check_known()
            else:
                feature = encoding.output(*features)
        except ValueError as error:
            self._wrong(entry, f"{kind}: {error}")
            return None
        # Elementwise encodings, and moments and quantiles, take the fill value of nulls later.
        keeps_pending = len(known) == 1 and (
            encoding.analyzer in (Moments, Quantiles)
            if encoding.analyzer is not None
            else encoding.elementwise
        )
        read = known[0].read if keeps_pending else max(item.read_complete for item in known)
        is_pending = keeps_pending and known[0].is_pending and encoding.elementwise
        if encoding.analyzer is None:
            return Step(kind, encoding, read), _Known(feature, read, is_pending)
        if encoding.fills:
            return Step(kind, encoding, read), _Known(feature, read, is_pending=True)
        return Step(kind, encoding, read), _Known(feature, read + 1)

    def _wrong(self, entry: str, message: str) -> None:
        self.problems.append(Problem(("encode", entry), message))


def _in_parts(encodings: list[tuple[str, Encoding]]) -> dict[str, list[tuple[str, Encoding]]]:
    """Returns one entry's chains by the suffix of the feature's name."""
    chains: dict[str, list[tuple[str, Encoding]]] = {"": []}
    for kind, encoding in encodings:
        so_far = chains.pop("")
        for suffix, part in encoding.parts().items():
            chains[suffix] = [*so_far, (kind, part)]
    # The feature of the entry's own name is last: the others start from the column it replaces.
    return dict(sorted(chains.items(), key=lambda item: item[0] == ""))


def with_fitted(plan: EncodePlan, steps: FittedSteps) -> EncodePlan:
    """Returns the plan with some steps fitted.

    The other steps are given their inputs.
    """
    known = plan.known()
    chains = []
    for number, chain in enumerate(plan.chains):
        features = tuple(known[name] for name in chain.inputs)
        own = []
        for index, step in enumerate(chain.steps):
            encoding = steps[number, index][1] if (number, index) in steps else step.encoding
            encoding = encoding.given(*features) if isinstance(encoding, Fixed) else encoding
            own.append(dataclasses.replace(step, encoding=encoding))
            features = (_output(chain, own[-1], features),)
        known[chain.name] = features[0]
        chains.append(dataclasses.replace(chain, steps=tuple(own)))
    return dataclasses.replace(plan, chains=tuple(chains))

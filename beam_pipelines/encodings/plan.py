"""The plan of a recipe's encodings: chains of steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from beam_pipelines.core.arrow.columns import has_lists_as_steps, shape_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.encodings import Encoding, Feature, Fitted
from beam_pipelines.encodings.encoding import Fixed
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
    feature, shape = Feature.of(field.type), shape_of(field)
    if size is None and shape is None:
        return feature
    length = None if shape is None else math.prod(shape)
    return dataclasses.replace(feature, size=size, length=length)


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


def with_fitted(plan: EncodePlan, steps: FittedSteps) -> EncodePlan:
    """Returns the plan with some steps fitted.

    The other steps are given their inputs.
    """
    known, chains = plan.known() if plan.chains else {}, []
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

"""Plans a recipe's encodings: chains, and passes that fit them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import pyarrow as pa

from beam_pipelines.core.arrow.columns import has_lists_as_steps, type_name, value_type
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest, nearest_column
from beam_pipelines.core.layout.id_names import is_of_ids
from beam_pipelines.encodings import ENCODING_FOR_KIND, Encoding, Feature
from beam_pipelines.encodings.analyzers import Moments, Quantiles
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.kinds.column import Column, Drop
from beam_pipelines.encodings.plan import Chain, EncodePlan, Step, with_fitted
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.sections import Fit


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

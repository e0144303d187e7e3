"""``target_mean``: the mean of another column over the rows of a key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings import values
from beam_pipelines.encodings.analyzers import Numbers, Weights
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import from_matrix, to_matrix
from beam_pipelines.encodings.tokens import (
    Ids,
    as_tokens,
    find_tokens,
    fit_for_file,
    need_amount,
    need_tokens,
    sums_of,
    tensor_tokens,
)
from beam_pipelines.encodings.vocabulary_asset import token_table

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = {
    "target": "a column of numbers or bools, as in {target_mean: late}",
    "smoothing": "a number of rows, 0 or more",
    "folds": "a number of folds, at least 2",
}


@dataclasses.dataclass(frozen=True)
class TargetCounts:
    """Sums a target by key and fold; ``analyzers.KeyedSums``.

    Its tables have the columns ``key`` (binary), and per fold f ``weight_f``, the weight of its
    rows, and ``sum_f``, the weighted sum of their targets (float64).

    Attributes:
      target: name of the column, for messages.
      folds: number of folds.
    """

    target: str
    folds: int

    def count(
        self, array: pa.Array, target: pa.Array | None, weights: Weights | None, folds: Ids | None
    ) -> pa.RecordBatch:
        """Returns the sums of a batch, without rows that have no key.

        Raises:
          DataError: a target is no finite number.
        """
        if target is None or folds is None:
            raise AssertionError("target_mean asks for both")
        numbers = _numbers(target, self.target)
        encoded = array.dictionary_encode()
        keys = as_tokens(encoded.dictionary)
        codes, rows = encoded.indices.drop_null().to_numpy(), np.flatnonzero(array.is_valid())
        cells = codes.astype(np.int64) * self.folds + folds[rows]
        shape = (len(keys), self.folds)
        weight = sums_of(cells, rows, len(keys) * self.folds, weights).reshape(shape)
        sums = sums_of(
            cells, rows, len(keys) * self.folds, numbers if weights is None else numbers * weights
        ).reshape(shape)
        columns = {"key": keys}
        for fold in range(self.folds):
            columns[f"weight_{fold}"] = pa.array(weight[:, fold])
            columns[f"sum_{fold}"] = pa.array(sums[:, fold])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return batch.filter(fit_for_file(keys))

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns all keys."""
        return sums


def _numbers(target: pa.Array, name: str) -> Numbers:
    """Returns a target as float64[n]."""
    if not (
        pa.types.is_integer(target.type)
        or pa.types.is_floating(target.type)
        or pa.types.is_boolean(target.type)
    ):
        raise DataError(
            f"target_mean: found {type_name(target.type)} in its target '{name}', expected numbers "
            "or bools. Take another target, or make one of it with 'derive'."
        )
    numbers: Numbers = target.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():  # null is NaN here
        raise DataError(
            f"target_mean: found null, NaN or infinity in its target '{name}', expected a number "
            "in every row to fit on. "
            f"Leave the rows out with filter: {name} IS NOT NULL, or fill the column."
        )
    return numbers


@dataclasses.dataclass(frozen=True)
class TargetMean(Encoding):
    """Replaces a key by its smoothed mean target (Micci-Barreca, 2001).

    The mean is ``(sum + smoothing * prior) / (weight + smoothing)``. ``weight`` is the number of
    rows of the key, or the sum of their weights; the prior is the mean over all rows with a key.

    Attributes:
      target: name of the column whose means are taken.
      smoothing: weight of the prior, in rows.
      folds: number of folds of the rows it is fitted on; each fold is encoded by the means of the
        others.
    """

    target: str = ""
    smoothing: float = 10.0
    folds: int = 5

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> TargetMean:
        """Takes ``target``, which is also the short form, ``smoothing`` and ``folds``."""
        parameters = values.short_form(parameters, "target")
        values.check_parameters(parameters, _EXPECTED)
        return cls(
            values.need_text(parameters, "target", _EXPECTED["target"]),
            need_amount(parameters.get("smoothing", cls.smoothing), _EXPECTED["smoothing"]),
            values.need_whole(
                parameters.get("folds", cls.folds), 2, _EXPECTED["folds"], values.MOST_PLACES
            ),
        )

    @property
    def analyzer(self) -> TargetCounts:  # type: ignore[override]
        """Sums the target by key and fold."""
        return TargetCounts(self.target, self.folds)

    def output(self, *features: Feature) -> Feature:
        """A float32 in every row."""
        return _output(features[0])

    def fit(self, analysis: pa.RecordBatch) -> FittedTargetMean:
        """Takes the means of all rows, and of all but each fold."""
        table = analysis.take(pc.sort_indices(analysis["key"]))
        weights = np.column_stack(
            [table[f"weight_{fold}"].to_numpy() for fold in range(self.folds)]
        ).astype(np.float64)
        sums = np.column_stack([table[f"sum_{fold}"].to_numpy() for fold in range(self.folds)])
        if not weights.sum():
            raise ValueError(
                "found no row with a key, expected some to fit on. Leave the column out with "
                "'drop'."
            )
        means, prior = self._means(weights.sum(axis=1), sums.sum(axis=1), 0.0)
        fold_means, fold_priors = np.empty_like(sums), []
        for fold in range(self.folds):
            # Subtracting the own fold from the total would leave a trace of it in the last digits.
            others = [number for number in range(self.folds) if number != fold]
            fold_means[:, fold], own = self._means(
                weights[:, others].sum(axis=1), sums[:, others].sum(axis=1), prior
            )
            fold_priors.append(own)
        return FittedTargetMean(
            table["key"],
            pa.array(means),
            prior,
            pa.array(fold_means.ravel()),
            tuple(fold_priors),
            self.folds,
        )

    def _means(self, weights: Numbers, sums: Numbers, default: float) -> tuple[Numbers, float]:
        """Returns the smoothed mean of each key, and the prior.

        Without rows, the prior is ``default``.
        """
        prior = float(sums.sum() / weights.sum()) if weights.sum() else default
        total = weights + self.smoothing
        means = np.full(len(weights), prior)
        np.divide(sums + self.smoothing * prior, total, out=means, where=total > 0)
        return means, prior


@dataclasses.dataclass(frozen=True)
class FittedTargetMean(Fitted):
    """The mean of a key; for other values the prior.

    Other values are null, unseen keys, the empty text and texts with a line break.

    Attributes:
      keys: binary, distinct, ascending.
      means: float64, of each key.
      prior: the mean over all keys.
      fold_means: float64, key by key the mean without the first fold, the second …
      fold_priors: the prior without each fold.
      folds: number of folds.
    """

    keys: pa.Array
    means: pa.Array
    prior: float
    fold_means: pa.Array
    fold_priors: tuple[float, ...]
    folds: int = 0

    def output(self, *features: Feature) -> Feature:
        """A float32 in every row."""
        return _output(features[0])

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Looks keys up."""
        means = np.append(self.means.to_numpy(), self.prior)  # place -1 is that of the prior
        return pa.array(means[find_tokens(self.keys, arrays[0])].astype(np.float32))

    def apply_out_of_fold(self, array: pa.Array, folds: npt.NDArray[np.int64]) -> pa.Array:
        """Looks keys up in the means without each row's own fold."""
        means = np.append(self.fold_means.to_numpy(), self.fold_priors).reshape(-1, self.folds)
        return pa.array(means[find_tokens(self.keys, array), folds].astype(np.float32))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Looks keys up."""
        import tensorflow as tf

        (x,) = features
        tokens = to_matrix(x.with_flat_values(tensor_tokens(x.flat_values)), "", 1)
        means = np.append(self.means.to_numpy(), self.prior).astype(np.float32)
        places = token_table(self.keys).lookup(tokens)
        return from_matrix(
            tf.gather(means, tf.where(places < 0, tf.cast(len(self.keys), tf.int64), places))
        )


def _output(feature: Feature) -> Feature:
    if need_tokens(feature).is_list:
        raise ValueError(f"found {type_name(feature.type)}, expected one key a row.")
    return Feature(pa.float32(), required=True)

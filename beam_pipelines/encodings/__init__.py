"""Turns columns into features with encodings, one module per kind.

One dictionary lists the kinds. ``encoding.py`` defines encodings, ``feature.py`` their inputs and
outputs, ``analyzers.py`` the analyses they are fitted to, and ``store.py`` their storage.
"""

from __future__ import annotations

from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature, feature_type
from beam_pipelines.encodings.kinds.bag_of_words import BagOfWords
from beam_pipelines.encodings.kinds.boundaries import Boundaries
from beam_pipelines.encodings.kinds.bucketize import Bucketize
from beam_pipelines.encodings.kinds.cast import Cast
from beam_pipelines.encodings.kinds.clip import Clip
from beam_pipelines.encodings.kinds.column import Column
from beam_pipelines.encodings.kinds.cross import Cross
from beam_pipelines.encodings.kinds.cyclic import Cyclic
from beam_pipelines.encodings.kinds.date_parts import DateParts
from beam_pipelines.encodings.kinds.drop import Drop
from beam_pipelines.encodings.kinds.fill import Fill
from beam_pipelines.encodings.kinds.hash_bucket import HashBucket
from beam_pipelines.encodings.kinds.log1p import Log1p
from beam_pipelines.encodings.kinds.min_max import MinMax
from beam_pipelines.encodings.kinds.multi_hot import MultiHot
from beam_pipelines.encodings.kinds.one_hot import OneHot
from beam_pipelines.encodings.kinds.quantile_normal import QuantileNormal
from beam_pipelines.encodings.kinds.target_mean import TargetMean
from beam_pipelines.encodings.kinds.tf_idf import TfIdf
from beam_pipelines.encodings.kinds.tokenize import Tokenize
from beam_pipelines.encodings.kinds.vector import Vector
from beam_pipelines.encodings.kinds.vocabulary import Vocabulary
from beam_pipelines.encodings.kinds.z_score import ZScore

__all__ = [
    "ENCODING_FOR_KIND",
    "Encoding",
    "Feature",
    "Fitted",
    "feature_type",
    "register_encoding",
]

ENCODING_FOR_KIND: dict[str, type[Encoding]] = {
    "cast": Cast,
    "column": Column,
    "drop": Drop,
    "bag_of_words": BagOfWords,
    "cross": Cross,
    "hash_bucket": HashBucket,
    "target_mean": TargetMean,
    "tf_idf": TfIdf,
    "tokenize": Tokenize,
    "vocabulary": Vocabulary,
    "boundaries": Boundaries,
    "bucketize": Bucketize,
    "clip": Clip,
    "cyclic": Cyclic,
    "date_parts": DateParts,
    "fill": Fill,
    "log1p": Log1p,
    "min_max": MinMax,
    "multi_hot": MultiHot,
    "one_hot": OneHot,
    "quantile_normal": QuantileNormal,
    "vector": Vector,
    "z_score": ZScore,
}


def register_encoding(kind: str, encoding: type[Encoding]) -> None:
    """Adds a kind of encoding that recipes can name.

    Call it at the end of the module that defines the encoding and its ``Fitted``. Worker processes
    and the process that builds the serving graph unpickle the encoding by reference: they import
    that module, and so register it too.

    Raises:
      ValueError: the kind is taken, or the class is in ``__main__``, which they cannot import.
    """
    if kind in ENCODING_FOR_KIND:
        raise ValueError(f"encoding '{kind}': found {ENCODING_FOR_KIND[kind]}, expected a new kind")
    if encoding.__module__ == "__main__":
        raise ValueError(
            f"encoding '{kind}': found {encoding} in the main script, expected it in a module that "
            "other processes can import"
        )
    ENCODING_FOR_KIND[kind] = encoding

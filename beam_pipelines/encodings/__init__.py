"""Encodings: how a column becomes a feature. One file for each kind, found through one dictionary.

``encoding.py`` says what an encoding is, ``feature.py`` what it takes and gives, ``learning.py``
what it can learn from, and ``store.py`` how fitted ones are kept.
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

__all__ = ["ENCODING_FOR_KIND", "Encoding", "Feature", "Fitted", "feature_type"]

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

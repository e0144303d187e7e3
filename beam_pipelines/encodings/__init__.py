"""Encodings: how a column becomes a feature. One file for each kind, found through one dictionary.

``encoding.py`` says what an encoding is, ``feature.py`` what it takes and gives, ``learning.py`` what it can learn from, and
``store.py`` how fitted ones are kept.
"""

from __future__ import annotations

from beam_pipelines.encodings.bag_of_words import BagOfWords
from beam_pipelines.encodings.boundaries import Boundaries
from beam_pipelines.encodings.bucketize import Bucketize
from beam_pipelines.encodings.cast import Cast
from beam_pipelines.encodings.clip import Clip
from beam_pipelines.encodings.column import Column
from beam_pipelines.encodings.cross import Cross
from beam_pipelines.encodings.cyclic import Cyclic
from beam_pipelines.encodings.date_parts import DateParts
from beam_pipelines.encodings.drop import Drop
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature, feature_type
from beam_pipelines.encodings.fill import Fill
from beam_pipelines.encodings.hash_bucket import HashBucket
from beam_pipelines.encodings.log1p import Log1p
from beam_pipelines.encodings.min_max import MinMax
from beam_pipelines.encodings.multi_hot import MultiHot
from beam_pipelines.encodings.one_hot import OneHot
from beam_pipelines.encodings.quantile_normal import QuantileNormal
from beam_pipelines.encodings.target_mean import TargetMean
from beam_pipelines.encodings.tf_idf import TfIdf
from beam_pipelines.encodings.tokenize import Tokenize
from beam_pipelines.encodings.vector import Vector
from beam_pipelines.encodings.vocabulary import Vocabulary
from beam_pipelines.encodings.z_score import ZScore

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

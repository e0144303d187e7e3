"""The serving graph: ``transform_graph/`` of a dataset, as tensorflow-transform writes it, built from encodings that are fitted.

It is built once, in a process of its own (``process.py``), so that the workers that carry data never load TensorFlow::

    raw tensors ──ragged.py──► ragged tensors ──encodings──► ragged tensors ──ragged.py──► features
        ▲                                                                                    │
        └── serialized examples, or padded tensors ──────── signatures.py ───────────────────┘

``write.py`` traces this with tensorflow-transform and saves it. Of these modules only functions import TensorFlow.
"""

from __future__ import annotations

from beam_pipelines.transform_graph.process import GraphBuilder, GraphJob, build_in_subprocess
from beam_pipelines.transform_graph.write import write_transform_graph

__all__ = ["GraphBuilder", "GraphJob", "build_in_subprocess", "write_transform_graph"]

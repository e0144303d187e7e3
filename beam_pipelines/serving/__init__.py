"""The serving graph: ``transform_graph/`` of a dataset, in tensorflow-transform's layout.

It is built once from fitted encodings, in a separate process (started by ``process.py``, its main
module is ``__main__.py``): workers never load TensorFlow. The process loads no Beam, and
tensorflow-transform and Keras only for a recipe's ``preprocessing_fn``: each takes a second. ::

    raw tensors ──ragged.py──► ragged tensors ──encodings──► ragged tensors ──ragged.py──► features
        ▲                                                                                    │
        └── serialized examples, or padded tensors ──────── signatures.py ───────────────────┘

``write.py`` traces and saves this. These modules import TensorFlow only inside functions.
"""

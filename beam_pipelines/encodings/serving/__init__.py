"""The serving graph: ``transform_graph/`` of a dataset, as tensorflow-transform writes it, built
from encodings that are fitted.

It is built once, in a process of its own (``process.py`` starts it, ``__main__.py`` is it), so that
the workers that carry data never load TensorFlow. That process loads neither Beam nor, but for a
recipe's own ``preprocessing_fn``, tensorflow-transform and Keras: each costs it a second. ::

    raw tensors ──ragged.py──► ragged tensors ──encodings──► ragged tensors ──ragged.py──► features
        ▲                                                                                    │
        └── serialized examples, or padded tensors ──────── signatures.py ───────────────────┘

``write.py`` traces this and saves it. Of these modules only functions import TensorFlow.
"""

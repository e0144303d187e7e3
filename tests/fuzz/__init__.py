"""Fuzzing of every reader of foreign input: ``python -m tests.fuzz --help``.

A target (``targets/``) is a pure function of bytes that raises only on a finding. ``engine`` lets
atheris, which follows the coverage of our code, choose the bytes. ``watch`` observes it from
another process, because C++ code that reads the input may crash the process. The ordinary suite
replays ``corpus/`` through the targets (``tests/fuzz/test_corpus.py``), without atheris.
"""

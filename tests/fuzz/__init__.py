"""Fuzzing of everything that reads what a stranger may have written:
``python -m tests.fuzz --help``.

A target (``targets/``) is a pure function of bytes that raises only on a finding. ``engine`` lets
atheris, which follows the coverage of our code, choose the bytes; ``watch`` keeps an eye on it from
another process, because what is read by C++ may take the process with it. The ordinary suite
replays ``corpus/`` through the targets (``tests/fuzz/test_corpus.py``), without atheris.
"""

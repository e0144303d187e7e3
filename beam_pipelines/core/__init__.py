"""Errors, Arrow helpers, hashing, files and C++ kernels.

Nothing here depends on recipes or jobs.
"""

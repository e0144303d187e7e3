"""Errors, Arrow helpers, hashing and C++ kernels.

Nothing here depends on recipes or jobs.
"""

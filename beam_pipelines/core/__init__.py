"""Errors, Arrow helpers, hashing, files and C++ kernels. Nothing here knows a recipe or a job."""

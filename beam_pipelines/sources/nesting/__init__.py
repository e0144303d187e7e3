"""Nested values made flat: lists, structs, arrays, tensors."""

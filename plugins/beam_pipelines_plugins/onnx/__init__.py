"""Encodings as an ONNX model."""

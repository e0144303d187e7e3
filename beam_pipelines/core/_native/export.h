// Handing results to Python: arrays in capsules of the Arrow C data interface.
#pragma once

#include <Python.h>

#include <cstdint>

#include "arrow.h"
#include "memory.h"

namespace native {

// Returns the pair of capsules that an object's __arrow_c_array__() returns.
// `format` is the type in the interface's words, a literal; the buffers, of which the last ones may be missing, are given back with the array.
// Takes the buffers in any case. Returns nullptr with a Python exception set if there is no memory.
PyObject* export_array(const char* format, int64_t length, Memory buffer1, Memory buffer2 = {}, Memory validity = {}, int64_t null_count = 0);

// Returns such a pair for two structs of `new`, and takes both in any case; an array that nobody imports is released with its capsule.
// Returns nullptr with a Python exception set if there is no memory.
PyObject* export_pair(ArrowSchema* schema, ArrowArray* array);

}  // namespace native

// Handing results to Python: arrays in capsules of the Arrow C data interface.
#pragma once

#include <Python.h>

#include <cstdint>

#include "memory.h"

namespace native {

// Returns the pair of capsules that an object's __arrow_c_array__() returns, of an array without nulls.
// `format` is the type in the interface's words; the buffers after the validity bitmap are given back with the array.
// Takes the buffers in any case. Returns nullptr with a Python exception set if there is no memory.
PyObject* export_array(const char* format, int64_t length, Memory buffer1, Memory buffer2 = {});

}  // namespace native

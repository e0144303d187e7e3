// Handing columns of lists to Python: a record batch in capsules of the Arrow C data interface.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "example_parser.h"

namespace native {

// Returns the pair of capsules of a batch whose columns are large lists, of the kinds and under the names of the features.
// Throws std::bad_alloc; returns nullptr with a Python exception set if Python has no memory.
PyObject* export_lists(int64_t num_rows, const std::vector<WantedFeature>& features, ExampleColumns columns);

}  // namespace native

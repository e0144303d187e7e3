// Arguments from Python (arrays in capsules of the Arrow C data interface, names, rows), and calls of kernels.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arrow.h"

namespace native {

// An array that another library exported, as the pair of capsules that __arrow_c_array__() returns. The pair keeps it alive.
struct Imported {
  const ArrowSchema* schema = nullptr;
  const ArrowArray* array = nullptr;
};

// Takes such a pair apart. Returns false with a Python exception set.
bool import_pair(PyObject* pair, Imported* imported);

// Reads a list of bytes. Returns false with a Python exception set.
bool read_names(PyObject* list, std::vector<std::string>* names);

// Reads int32 or int64 rows. Throws UnknownType, InvalidData.
std::vector<int64_t> read_rows(const Imported& array);

// Runs a kernel without the interpreter's lock, and turns C++ exceptions into Python's. Returns whether it succeeded.
bool run(const std::function<void()>& kernel);

}  // namespace native

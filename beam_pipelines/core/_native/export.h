// Results for Python: arrays in capsules of the Arrow C data interface.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory.h"

namespace native {

// An array, its type and its children. It owns its buffers.
struct Result {
  std::string format;          // the type, as the interface writes it
  std::string name;            // as a child
  int64_t length = 0, null_count = 0;
  std::vector<Memory> buffers;  // the first is the validity bitmap, empty without nulls
  std::vector<std::unique_ptr<Result>> children;

  Result(const char* array_format, int64_t array_length, std::vector<Memory> array_buffers, int64_t nulls = 0)
      : format(array_format), length(array_length), null_count(nulls), buffers(std::move(array_buffers)) {}
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    for (const Memory& memory : buffers) give_back(memory);
  }
};

// Returns the pair of capsules that an object's __arrow_c_array__() returns; an array of structs is a record batch.
// Returns nullptr with a Python exception set if there is no memory.
PyObject* export_result(std::unique_ptr<Result> result);

// Does so for an array of numbers (one buffer) or texts (offsets and bytes). Takes the buffers in any case.
PyObject* export_array(const char* format, int64_t length, Memory buffer1, Memory buffer2 = {}, Memory validity = {}, int64_t null_count = 0);

}  // namespace native

// Rows of columns, as Arrow's `take` returns them, for the usual column types.
#pragma once

#include <cstdint>

#include "column.h"
#include "gather.h"
#include "memory.h"

namespace native {

// The buffers of an array: values, or offsets and texts. It owns them.
struct Taken {
  const char* format = nullptr;  // of the C data interface; of another type of the same width for some types; none for an unknown type
  Memory validity, fixed, texts;
  int64_t null_count = 0;

  Taken() = default;
  Taken(Taken&& other) noexcept { swap(other); }
  Taken& operator=(Taken&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Taken();
  void swap(Taken& other) noexcept;
};

// Returns the values of rows of the column; empty for lists and dictionaries. Throws InvalidData.
Taken take(const Column& column, const Selection& rows);

}  // namespace native

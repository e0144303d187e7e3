// Rows of columns, each column by itself: what Arrow's `take` does, for what tables mostly consist of.
#pragma once

#include <cstdint>

#include "column.h"
#include "gather.h"
#include "memory.h"

namespace native {

// The buffers of an array: of values, or of offsets and texts. Gives back what nobody has taken out of it.
struct Taken {
  const char* format = nullptr;  // of the C data interface; of types that differ in meaning only, one of their width. Nothing is known of a column without.
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

// Returns the values of some rows, all of which the column has; of lists and dictionaries nothing. Throws InvalidData.
Taken take(const Column& column, const Selection& rows);

}  // namespace native

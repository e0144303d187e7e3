// Rows of a batch as stripes: consecutive rows, narrowed, that can be read without the others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrow.h"
#include "column.h"
#include "memory.h"

namespace native {

// The stripes of a batch, one after the other.
struct Packed {
  Memory data;
  size_t size = 0;  // of the data in use
  Memory ends;  // int64: where each stripe ends in `data`
  int64_t count = 0;
};

// Packs rows, `rows_per_stripe` to a stripe. Bool, numbers, dates, times, texts with 32-bit offsets, and lists of them.
// Throws UnknownType for a column of another type, InvalidData.
Packed pack_stripes(const std::vector<Column>& columns, int64_t num_rows, int64_t rows_per_stripe);

// Rows to unpack: `count` rows of consecutive stripes, without the first `skip` ones.
struct Piece {
  const uint8_t* data;
  size_t size;
  int64_t skip, count;
};

// An array with its children, as Arrow describes it. It owns its buffers.
struct Unpacked {
  std::string format, name;
  int64_t length = 0, null_count = 0;
  std::vector<Memory> buffers;  // validity (none without nulls), values or offsets, texts
  std::unique_ptr<Unpacked> child;

  Unpacked() = default;
  Unpacked(Unpacked&&) = default;
  ~Unpacked();
};

// Returns the columns of the rows of all pieces, one after the other.
// Throws UnknownType, InvalidData for data that no pack_stripes of this schema wrote.
std::vector<Unpacked> unpack_stripes(const ArrowSchema& schema, const std::vector<Piece>& pieces);

}  // namespace native

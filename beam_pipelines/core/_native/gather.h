// Columns in the order of a selection.
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.h"
#include "column.h"
#include "memory.h"

namespace native {

// Rows to take, in order; the first `count` rows if `rows` is null.
struct Selection {
  const int64_t* rows = nullptr;
  int64_t count = 0;

  int64_t operator[](int64_t place) const { return rows ? rows[place] : place; }
};

// Throws InvalidData if a row is not one of the first `num_rows`.
void check_rows(const Selection& selection, int64_t num_rows);

// Writes the bits of rows, the first into the lowest bit; pads the last byte with zeros. `offset`: of row 0 in `bits`.
void gather_bits(const uint8_t* bits, int64_t offset, const Selection& selection, uint8_t* to);

// Writes the values of some rows of a column, each as wide as `Value`.
template <typename Value>
void gather_values(const Column& column, const Selection& selection, uint8_t* to) {
  const uint8_t* from = column.fixed + static_cast<size_t>(column.offset) * sizeof(Value);
  for (int64_t place = 0; place < selection.count; ++place, to += sizeof(Value)) {
    store(to, load<Value>(from + static_cast<size_t>(selection[place]) * sizeof(Value)));
  }
}

// The first size of a growing buffer: small, as many columns may be mostly null.
constexpr size_t kMostAtFirst = size_t{64} << 20;

// Processors prefetch some twenty sequential streams, not two for each column. So the kernel
// prefetches the data of the next rows, this many rows at a time.
constexpr int64_t kPrefetchedRows = 16;

// Prefetches the values of rows from `begin` on, and the offsets of the rows after them. Throws InvalidData.
void prefetch(const Column& column, int64_t begin);

// Some rows of columns, copied in the order in which they will be read.
//
// A record needs a value of every column. Read row by row in random order, each value is a cache
// miss; read column by column, the values of one column fit the cache. The copies of some rows of all
// columns fit it, too, and are on few pages.
class Gathered {
 public:
  // The numbers of all rows and columns determine how many rows are copied at a time.
  Gathered(int64_t num_rows, size_t num_columns);

  // How many rows a selection should have.
  int64_t rows_at_a_time() const { return rows_at_a_time_; }

  // Begins with other rows; the copies of those before are no longer valid.
  void select(const Selection& selection);

  // Whether a column can be copied: of numbers or texts.
  static bool can_gather(const Column& column);

  // Copies the selected values of a column. Throws InvalidData.
  void gather(const Column& column);

  // Returns the copy of the nth column, once all are copied: value i is that of row selection[i].
  Column copy_of(size_t number) const;

 private:
  struct Place {
    Kind kind;
    bool has_nulls;
    size_t validity, fixed, data;  // where its buffers begin
    int64_t data_size;
  };

  template <typename Value>
  void put_values(const Column& column);
  template <typename Offset>
  int64_t put_texts(const Column& column, size_t offsets);
  size_t here() const { return static_cast<size_t>(at_ - buffer_.data()); }

  int64_t rows_at_a_time_;
  Selection selection_;
  Buffer buffer_;
  uint8_t* at_;
  std::vector<Place> places_;
};

}  // namespace native

// Arrow arrays as the kernels read them; offsets and indices are checked where they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "arrow.h"
#include "bytes.h"

namespace native {

// Data that contradict themselves; ValueError in Python.
struct InvalidData : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A type that no kernel reads; TypeError in Python. The message is the column's name, or empty.
struct UnknownType : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kTime64,  // and other types of 64 bits that are no int64
  kFloat,
  kDouble,
  kBytes,       // string, binary: offsets of 32 bits
  kLargeBytes,  // large_string, large_binary: offsets of 64 bits
  kList,
  kLargeList,
  kFixedSizeList,
  kDictionary,
};

// The type of a dictionary's indices, which are the values of the column.
enum class IndexKind : uint8_t { kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64 };

struct Range {
  int64_t begin, end;
};

inline bool bit_of(const uint8_t* bits, int64_t place) { return bits[place >> 3] >> (place & 7) & 1; }

struct Column {
  Kind kind;
  IndexKind index_kind = IndexKind::kInt8;
  const uint8_t* validity = nullptr;  // one bit per value, 1: valid; nullptr: no nulls
  const uint8_t* fixed = nullptr;     // offsets, or values of fixed width, or indices
  const uint8_t* data = nullptr;      // bytes of texts
  int64_t offset = 0;                 // of the array's first value in the buffers
  int64_t length = 0;
  Range limits = {0, 0};              // all offsets are between the first and the last one
  int64_t list_size = 0;              // of a fixed-size list
  std::unique_ptr<Column> child;      // values of lists, or the dictionary

  // The number of lists around one value: 0 for a scalar, 1 for a list, 2 for a list of lists.
  int depth() const;

  bool is_list() const { return kind == Kind::kList || kind == Kind::kLargeList || kind == Kind::kFixedSizeList; }

  bool is_valid(int64_t row) const { return !validity || bit_of(validity, offset + row); }

  // The value of a bool.
  bool bit(int64_t row) const { return bit_of(fixed, offset + row); }

  template <typename T>
  T value(int64_t row) const {
    return load<T>(fixed + static_cast<size_t>(offset + row) * sizeof(T));
  }

  // The range of a text's bytes, or of a list's values.
  template <typename Offset>
  Range range(int64_t row) const {
    Range found = {value<Offset>(row), value<Offset>(row + 1)};
    if (found.begin > found.end || found.begin < limits.begin || found.end > limits.end) bad_offsets(row, found);
    return found;
  }

  Range list_range(int64_t row) const {
    switch (kind) {
      case Kind::kList:
        return range<int32_t>(row);
      case Kind::kLargeList:
        return range<int64_t>(row);
      default: {
        int64_t begin = (offset + row) * list_size;
        return {begin, begin + list_size};
      }
    }
  }

  Range bytes_range(int64_t row) const { return kind == Kind::kBytes ? range<int32_t>(row) : range<int64_t>(row); }

  int64_t index(int64_t row) const;

  [[noreturn]] void bad_offsets(int64_t row, Range found) const;
};

// Returns the kind of a type without a dictionary, as the C data interface writes it. Throws UnknownType.
Kind kind_of(const char* format, const std::string& name);

// Reads an array that Arrow exported. Both structs have to outlive the column.
// `name` is for errors; `first` is the offset of the struct around it.
// Throws UnknownType, InvalidData.
Column read_column(const ArrowSchema& schema, const ArrowArray& array, const std::string& name, int64_t first, int64_t length);

// A value's place: in the column itself, or in the dictionary that an index points into.
struct Place {
  const Column* column;  // nullptr: null
  int64_t row;
};

inline Place place_of(const Column* column, int64_t row) {
  while (column->is_valid(row)) {
    if (column->kind != Kind::kDictionary) return {column, row};
    row = column->index(row);
    column = column->child.get();
  }
  return {nullptr, 0};
}

}  // namespace native

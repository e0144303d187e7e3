// Parses CSV records to the values of csv/parser.py, or declines where it is not certain of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csv_cells.h"
#include "memory.h"

namespace native {

enum class CsvType : uint8_t { kInteger, kFloat, kDouble, kBool, kText, kBytes, kDate, kTime, kTimestamp, kZonedTimestamp };

// A column to read.
struct CsvColumn {
  size_t place;             // among all columns of the records
  CsvType type;
  int64_t least = 0;        // of an integer
  int64_t most = INT64_MAX;
  bool is_exact = false;  // declines leading zeros, such as 007, and whole numbers that float64 may round
};

// The buffers of a column's Arrow array: integers, times and timestamps (microseconds) are int64,
// dates int32.
struct CsvValues {
  size_t null_count = 0;
  Memory validity = {};  // none without nulls
  Memory fixed = {};     // values of fixed width, or offsets (int32) of texts
  Memory texts = {};
};

struct CsvTable {
  int64_t rows = 0;
  std::vector<CsvValues> columns;  // one for each column asked for

  CsvTable() = default;
  CsvTable(CsvTable&&) = default;
  CsvTable& operator=(CsvTable&& other) {
    std::swap(rows, other.rows);
    columns.swap(other.columns);
    return *this;
  }
  ~CsvTable();
};

// Reads whole records, without a header.
//
// Args:
//   data: less than 2 GiB. The last record may lack its line end.
//   num_columns: how many cells each record has.
//   nulls: texts that mean null, in quotes or not.
//   most: bytes of a record, its line end included.
//
// It also declines a record with another number of cells or too many bytes, a blank line before the
// last lines, a value that may not be of its column's type, and text that is not UTF-8.
std::optional<CsvTable> parse_csv(const uint8_t* data, size_t size, CsvDialect dialect, size_t num_columns, const std::vector<CsvColumn>& columns,
                                  const std::vector<std::string>& nulls, size_t most);

}  // namespace native

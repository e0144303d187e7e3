// CSV records into columns: a fast path that declines. What it returns is what Arrow's CSV reader would; where it is not certain of that it returns nothing.
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
};

// The values of a column, in the buffers of an Arrow array: of integers int64; of dates int32; of times and timestamps int64, microseconds.
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
// Declined is also: a record of more or fewer cells or of too many bytes, a blank line unless it is among the last, a value that is not certain to be one of
// its column's type, text that is not UTF-8.
std::optional<CsvTable> parse_csv(const uint8_t* data, size_t size, CsvDialect dialect, size_t num_columns, const std::vector<CsvColumn>& columns,
                                  const std::vector<std::string>& nulls, size_t most);

}  // namespace native

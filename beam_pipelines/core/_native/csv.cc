#include "csv.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "bytes.h"
#include "csv_digits.h"
#include "csv_values.h"

namespace native {
namespace {

// Cells to find before their conversion, column by column: they and their text fit the first cache, or are so many rows, which write whole
// lines of it in each of many columns.
constexpr size_t kCellsAtATime = 4096, kRowsAtATime = 8, kMostCellsAtATime = size_t{1} << 18;

// Columns between the prefetch of what one writes next and its use.
constexpr size_t kAhead = 6;

// Texts that mean null.
class NullTexts {
 public:
  explicit NullTexts(const std::vector<std::string>& texts) : texts_(texts) {
    for (const std::string& text : texts) {
      if (text.empty()) is_empty_null_ = true;
      else sizes_[static_cast<uint8_t>(text[0])] |= bit(text.size());
    }
  }

  bool has(Text text) const {
    if (!text.size) return is_empty_null_;
    if (!(sizes_[*text.data] & bit(text.size))) return false;
    for (const std::string& null : texts_) {
      if (null.size() == text.size && !std::memcmp(null.data(), text.data, text.size)) return true;
    }
    return false;
  }

 private:
  static uint64_t bit(size_t size) { return uint64_t{1} << std::min<size_t>(size, 63); }

  const std::vector<std::string>& texts_;
  bool is_empty_null_ = false;
  uint64_t sizes_[256] = {};  // of texts that begin with a byte
};

// Whole records with the ends of all cells. Cell i begins after the end of cell i - 1, which is the
// byte that ends that cell.
struct Records {
  const uint8_t* data;
  size_t size;
  const uint32_t* ends;  // of the first cell; ends[-1] is that of the record before
  size_t num_rows, num_columns;
  int quote;             // -1: no cell has quotes
  bool has_returns;

  uint32_t begin_of(size_t row) const { return ends[row * num_columns - 1] + 1; }
  uint32_t end_of(size_t row) const { return ends[row * num_columns + num_columns - 1]; }
};

// Bytes of a value in the fixed buffer; a boolean takes one until it becomes a bit.
size_t width_of(CsvType type) {
  switch (type) {
    case CsvType::kBool:
      return 1;
    case CsvType::kFloat:
    case CsvType::kDate:
    case CsvType::kText:  // an offset
    case CsvType::kBytes:
      return 4;
    default:
      return 8;
  }
}

// A growing column. `add` returns false for a value that it is not certain of.
class Builder {
 public:
  // Allocates the expected size; it may grow.
  Builder(const CsvColumn& column, size_t rows, size_t text_bytes)
      : column_(column), fixed_((rows + 1) * width_of(column.type)), texts_(is_text() ? text_bytes : 0) {
    fixed_at_ = fixed_.data();
    text_at_ = texts_.data();
    if (is_text()) {
      store(fixed_at_, int32_t{0});  // where the first text begins
      fixed_at_ += sizeof(int32_t);
    }
  }

  // Fetches the lines that `add` writes first.
  void prefetch() const {
    __builtin_prefetch(fixed_at_, 1);
    __builtin_prefetch(fixed_at_ + 64, 1);
  }

  bool add(const Records& records, const NullTexts& nulls) {
    fixed_at_ = fixed_.room(fixed_at_, (records.num_rows + 1) * width_of(column_.type));
    const bool may_have_return = records.has_returns && column_.place == records.num_columns - 1;
    return records.quote >= 0 || may_have_return ? add_cells<false>(records, nulls) : add_cells<true>(records, nulls);
  }

  // Whether all texts are UTF-8: their concatenation is, and none begins inside a character.
  bool is_utf8() const {
    if (column_.type != CsvType::kText) return true;
    const uint8_t* const end = text_at_;
    for (const uint8_t* at = fixed_.data(); at < fixed_at_; at += sizeof(int32_t)) {
      const uint8_t* const begin = texts_.data() + load<int32_t>(at);
      if (begin < end && (*begin & 0xC0) == 0x80) return false;
    }
    return native::is_utf8(texts_.data(), static_cast<size_t>(end - texts_.data()));
  }

  // Releases the buffers.
  void finish(CsvValues* values) {
    values->null_count = null_rows_.size();
    if (!null_rows_.empty()) {
      const size_t bytes = (row_ + 7) / 8;
      Buffer validity(bytes);
      std::memset(validity.data(), 0xFF, bytes);
      for (const uint32_t row : null_rows_) validity.data()[row / 8] &= static_cast<uint8_t>(~(1u << row % 8));
      values->validity = validity.release(bytes);
    }
    values->fixed = fixed_.release(static_cast<size_t>(fixed_at_ - fixed_.data()));
    if (is_text()) values->texts = texts_.release(static_cast<size_t>(text_at_ - texts_.data()));
  }

 private:
  bool is_text() const { return column_.type == CsvType::kText || column_.type == CsvType::kBytes; }

  // `kIsPlain`: cells have no quotes and no carriage returns.
  template <bool kIsPlain>
  bool add_cells(const Records& records, const NullTexts& nulls) {
    switch (column_.type) {
      case CsvType::kInteger:
        return add_values<kIsPlain, int64_t>(records, nulls, [least = column_.least, most = column_.most, checks = column_.is_exact](Text text, int64_t* value) {
          if (checks && leads_with_zero(text)) return false;
          uint64_t number;  // nearly all are one to eight digits
          if (text.size > 8 || !parse_digits(text, &number) || number > static_cast<uint64_t>(most)) return parse_integer(text, least, most, value);
          *value = static_cast<int64_t>(number);
          return true;
        });
      case CsvType::kFloat:
        return add_values<kIsPlain, float>(records, nulls, [](Text text, float* value) { return parse_float(text, value); });
      case CsvType::kDouble:
        return add_values<kIsPlain, double>(records, nulls, [checks = column_.is_exact](Text text, double* value) {
          return !(checks && leads_with_zero(text)) && parse_float(text, value) && !(checks && may_be_rounded(text, *value));
        });
      case CsvType::kDate:
        return add_values<kIsPlain, int32_t>(records, nulls, parse_date);
      case CsvType::kTime:
        return add_values<kIsPlain, int64_t>(records, nulls, parse_time);
      case CsvType::kTimestamp:
        return add_values<kIsPlain, int64_t>(records, nulls, [](Text text, int64_t* value) { return parse_timestamp(text, false, value); });
      case CsvType::kZonedTimestamp:
        return add_values<kIsPlain, int64_t>(records, nulls, [](Text text, int64_t* value) { return parse_timestamp(text, true, value); });
      case CsvType::kBool:
        return add_bools<kIsPlain>(records, nulls);
      case CsvType::kText:
      case CsvType::kBytes:
        return add_texts<kIsPlain>(records, nulls);
    }
    return false;
  }

  // The write places are local variables while cells are added: a written byte may alias members,
  // which would then be read again for each cell.

  template <bool kIsPlain, typename Value, typename Parse>
  bool add_values(const Records& records, const NullTexts& nulls, Parse parse) {
    uint8_t* at = fixed_at_;
    const bool is_certain = each<kIsPlain>(records, nulls, [&](Text text, bool is_null) {
      Value value = 0;
      if (!is_null && !parse(text, &value)) return false;
      store(at, value);
      at += sizeof value;
      return true;
    });
    fixed_at_ = at;
    return is_certain;
  }

  template <bool kIsPlain>
  bool add_bools(const Records& records, const NullTexts& nulls) {
    uint32_t row = row_;
    return each<kIsPlain>(records, nulls, [&](Text text, bool is_null) {
      bool value = false;
      if (!is_null && !parse_bool(text, &value)) return false;
      if (row % 8 == 0) *fixed_at_++ = 0;
      fixed_at_[-1] |= static_cast<uint8_t>(value << row++ % 8);
      return true;
    });
  }

  template <bool kIsPlain>
  bool add_texts(const Records& records, const NullTexts& nulls) {
    uint8_t *at = text_at_, *offset_at = fixed_at_, *end = texts_.end();
    const uint8_t* begin = texts_.data();
    each<kIsPlain>(records, nulls, [&](Text text, bool is_null) {
      if (is_null) text.size = 0;
      if (static_cast<size_t>(end - at) < text.size) {
        at = texts_.room(at, text.size);
        begin = texts_.data();
        end = texts_.end();
      }
      copy(at, text.data, text.size, text.readable);
      at += text.size;
      store(offset_at, static_cast<int32_t>(at - begin));
      offset_at += sizeof(int32_t);
      return true;
    });
    text_at_ = at;
    fixed_at_ = offset_at;
    return true;
  }

  // Calls add(text, whether it is null) for each row, until it returns false.
  template <bool kIsPlain, typename Add>
  inline bool each(const Records& records, const NullTexts& nulls, Add add) {
    const uint32_t* end = records.ends + column_.place;
    for (size_t row = 0; row < records.num_rows; ++row, end += records.num_columns) {
      const uint32_t begin = end[-1] + 1;
      Text text = {records.data + begin, *end - begin, records.size - begin};
      if (!kIsPlain) text = content(text, records);
      const bool is_null = nulls.has(text);
      if (is_null) null_rows_.push_back(row_ + static_cast<uint32_t>(row));
      if (!add(text, is_null)) return false;
    }
    row_ += static_cast<uint32_t>(records.num_rows);
    return true;
  }

  // A cell's text, without quotes around it and the carriage return of its line end.
  Text content(Text cell, const Records& records) {
    if (column_.place == records.num_columns - 1 && cell.size && cell.data[cell.size - 1] == '\r') --cell.size;
    if (!cell.size || *cell.data != records.quote) return cell;
    const Text inner = {cell.data + 1, cell.size - 2, cell.readable - 1};
    if (!std::memchr(inner.data, records.quote, inner.size)) return inner;
    // Quotes inside are doubled.
    unquoted_.resize(inner.size);
    size_t size = 0;
    for (size_t place = 0; place < inner.size; ++place) {
      unquoted_[size++] = inner.data[place];
      place += inner.data[place] == records.quote;
    }
    return {unquoted_.data(), size, size};
  }

  const CsvColumn column_;
  Buffer fixed_, texts_;
  uint8_t *fixed_at_, *text_at_;  // what is written next
  uint32_t row_ = 0;
  std::vector<uint32_t> null_rows_;
  std::vector<uint8_t> unquoted_;
};

// Whether a line ends where every record does, and none is blank or too long.
bool are_records(const Records& records, size_t most) {
  for (size_t row = 0; row < records.num_rows; ++row) {
    const uint32_t begin = records.begin_of(row), end = records.end_of(row);
    if (end < records.size && records.data[end] != '\n') return false;
    if (begin == end || records.data[begin] == '\r' || end - begin >= most) return false;
  }
  return true;
}

// A builder for each column, with slightly more space than needed if all records are like the first.
std::vector<std::optional<Builder>> make_builders(const std::vector<CsvColumn>& columns, const Records& first) {
  const size_t read = first.end_of(first.num_rows - 1) + size_t{1};
  const double times = 1.05 * static_cast<double>(first.size) / static_cast<double>(read) + 1;
  std::vector<std::optional<Builder>> builders(columns.size());
  for (size_t number = 0; number < columns.size(); ++number) {
    const CsvColumn& column = columns[number];
    size_t text_bytes = 0;
    for (size_t row = 0; row < first.num_rows; ++row) {
      const uint32_t* const end = first.ends + row * first.num_columns + column.place;
      text_bytes += *end - (end[-1] + 1);
    }
    builders[number].emplace(column, static_cast<size_t>(times * static_cast<double>(first.num_rows)),
                             static_cast<size_t>(times * static_cast<double>(text_bytes)));
  }
  return builders;
}

// The size without blank lines at the end.
size_t without_blank_lines(const uint8_t* data, size_t size) {
  while (size > 1 && data[size - 1] == '\n') {
    const size_t before = size - 1 - (data[size - 2] == '\r');
    if (!before || data[before - 1] != '\n') break;
    size = before;
  }
  return size;
}

}  // namespace

CsvTable::~CsvTable() {
  for (const CsvValues& values : columns) {
    for (const Memory& memory : {values.validity, values.fixed, values.texts}) give_back(memory);
  }
}

std::optional<CsvTable> parse_csv(const uint8_t* data, size_t size, CsvDialect dialect, size_t num_columns, const std::vector<CsvColumn>& columns,
                                  const std::vector<std::string>& nulls, size_t most) {
  size = without_blank_lines(data, size);
  if (!size || size > INT32_MAX || !num_columns || num_columns > INT32_MAX) return std::nullopt;
  const NullTexts null_texts(nulls);
  CellFinder finder(data, size, dialect);
  std::vector<uint32_t> ends = {UINT32_MAX};  // the byte before the first one
  std::vector<std::optional<Builder>> builders;  // next to each other
  const size_t cells = std::max(num_columns, std::clamp(kRowsAtATime * num_columns, kCellsAtATime, kMostCellsAtATime));
  size_t rows = 0;
  while (!finder.is_done()) {
    if (!finder.find(cells, &ends)) return std::nullopt;
    const size_t num_rows = (ends.size() - 1) / num_columns;
    const Records records = {data, size, ends.data() + 1, num_rows, num_columns, finder.has_quotes() ? dialect.quote : -1, finder.has_returns()};
    rows += records.num_rows;
    if (finder.lines() != rows || !are_records(records, most)) return std::nullopt;
    if (builders.empty() && records.num_rows) builders = make_builders(columns, records);
    for (size_t number = 0; number < builders.size(); ++number) {
      if (number + kAhead < builders.size()) builders[number + kAhead]->prefetch();
      if (!builders[number]->add(records, null_texts)) return std::nullopt;
    }
    // Keep the end of the last record, and those of the cells after it.
    ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(records.num_rows * num_columns));
  }
  if (ends.size() != 1) return std::nullopt;  // the last record has too few cells
  for (const std::optional<Builder>& builder : builders) {
    if (!finder.is_ascii() && !builder->is_utf8()) return std::nullopt;
  }
  CsvTable table;
  table.rows = static_cast<int64_t>(rows);
  table.columns.resize(columns.size());
  for (size_t place = 0; place < columns.size(); ++place) builders[place]->finish(&table.columns[place]);
  return table;
}

}  // namespace native

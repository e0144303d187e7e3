#include "gather.h"

#include <algorithm>
#include <string>

#include "bytes.h"

namespace native {
namespace {

// Rows between the prefetch of a text's bytes and their copy; twice as many for its offsets.
constexpr int64_t kAhead = 16;

// The copies of more columns than a processor has pages at hand are small: so many bytes of numbers, but some rows.
constexpr size_t kManyColumns = 1024;
constexpr size_t kCopied = size_t{1} << 20;
constexpr size_t kFewestRows = 16;

int64_t rows_to_copy(int64_t num_rows, size_t num_columns) {
  if (num_columns <= kManyColumns) return std::max<int64_t>(num_rows, 1);
  return static_cast<int64_t>(std::max(kCopied / (sizeof(int64_t) * num_columns), kFewestRows));
}

constexpr int64_t kLine = 64, kMostAhead = 64 * kLine;

void prefetch_range(const uint8_t* begin, const uint8_t* end) {
  for (end = std::min(end, begin + kMostAhead); begin < end; begin += kLine) __builtin_prefetch(begin);
}

void prefetch_texts(const Column& column, int64_t begin, int64_t end) {
  const Range first = column.bytes_range(begin), last = column.bytes_range(end - 1);
  prefetch_range(column.data + first.begin, column.data + last.end);
}

}  // namespace

void prefetch(const Column& column, int64_t begin) {
  const int64_t middle = std::min(begin + kPrefetchedRows, column.length), end = std::min(middle + kPrefetchedRows, column.length);
  const bool is_text = column.kind == Kind::kBytes || column.kind == Kind::kLargeBytes;
  const int64_t width = column.kind == Kind::kBytes || column.kind == Kind::kFloat ? 4 : 8;
  if (!Gathered::can_gather(column)) return;
  prefetch_range(column.fixed + (column.offset + middle) * width, column.fixed + (column.offset + end) * width);
  if (is_text && begin < middle) prefetch_texts(column, begin, middle);
}

void check_rows(const Selection& selection, int64_t num_rows) {
  for (int64_t place = 0; place < selection.count; ++place) {
    const int64_t row = selection[place];
    if (row >= 0 && row < num_rows) continue;
    throw InvalidData("rows: found " + std::to_string(row) + " at place " + std::to_string(place) + ", expected a row from 0 to " +
                      std::to_string(num_rows - 1));
  }
}

void gather_bits(const uint8_t* bits, int64_t offset, const Selection& selection, uint8_t* to) {
  for (int64_t place = 0; place < selection.count; place += 8) {
    const int64_t end = std::min<int64_t>(selection.count - place, 8);
    unsigned byte = 0;
    for (int64_t bit = 0; bit < end; ++bit) {
      const int64_t row = offset + selection[place + bit];
      byte |= static_cast<unsigned>(bit_of(bits, row)) << bit;
    }
    *to++ = static_cast<uint8_t>(byte);
  }
}

Gathered::Gathered(int64_t num_rows, size_t num_columns)
    : rows_at_a_time_(rows_to_copy(num_rows, num_columns)),
      buffer_(std::min((static_cast<size_t>(std::min(num_rows, rows_at_a_time_)) + 8) * 17 * num_columns, kMostAtFirst)),
      at_(buffer_.data()) {}

void Gathered::select(const Selection& selection) {
  selection_ = selection;
  at_ = buffer_.data();
  places_.clear();
}

bool Gathered::can_gather(const Column& column) {
  return column.kind == Kind::kInt64 || column.kind == Kind::kFloat || column.kind == Kind::kBytes || column.kind == Kind::kLargeBytes;
}

void Gathered::gather(const Column& column) {
  const size_t count = static_cast<size_t>(selection_.count);
  Place place{column.kind, column.validity != nullptr, 0, 0, 0, 0};
  at_ = buffer_.room(at_, count / 8 + 1 + (count + 1) * sizeof(int64_t));
  place.validity = here();
  if (place.has_nulls) {
    gather_bits(column.validity, column.offset, selection_, at_);
    at_ += (count + 7) / 8;
  }
  place.fixed = here();
  if (column.kind == Kind::kInt64) {
    put_values<uint64_t>(column);
  } else if (column.kind == Kind::kFloat) {
    put_values<uint32_t>(column);
  } else {
    at_ += (count + 1) * sizeof(int64_t);
    place.data = here();
    place.data_size = column.kind == Kind::kBytes ? put_texts<int32_t>(column, place.fixed) : put_texts<int64_t>(column, place.fixed);
    place.kind = Kind::kLargeBytes;  // rows that come several times can take more than 2 GiB
  }
  places_.push_back(place);
}

Column Gathered::copy_of(size_t number) const {
  const Place& place = places_[number];
  Column column;
  column.kind = place.kind;
  column.length = selection_.count;
  column.validity = place.has_nulls ? buffer_.data() + place.validity : nullptr;
  column.fixed = buffer_.data() + place.fixed;
  column.data = buffer_.data() + place.data;
  column.limits = {0, place.data_size};
  return column;
}

template <typename Value>
void Gathered::put_values(const Column& column) {
  gather_values<Value>(column, selection_, at_);
  at_ += static_cast<size_t>(selection_.count) * sizeof(Value);
}

template <typename Offset>
int64_t Gathered::put_texts(const Column& column, size_t offsets) {
  const size_t start = here();
  uint8_t* at = at_;
  for (int64_t place = 0; place < selection_.count; ++place) {
    if (place + 2 * kAhead < selection_.count) {
      __builtin_prefetch(column.fixed + static_cast<size_t>(column.offset + selection_[place + 2 * kAhead]) * sizeof(Offset));
      __builtin_prefetch(column.data + column.range<Offset>(selection_[place + kAhead]).begin);
    }
    const Range range = column.range<Offset>(selection_[place]);
    const size_t size = static_cast<size_t>(range.end - range.begin);
    at = buffer_.room(at, size);
    copy(at, column.data + range.begin, size, static_cast<size_t>(column.limits.end - range.begin));
    store<int64_t>(buffer_.data() + offsets, at - buffer_.data() - static_cast<int64_t>(start));
    offsets += sizeof(int64_t);
    at += size;
  }
  at_ = at;
  store<int64_t>(buffer_.data() + offsets, static_cast<int64_t>(here() - start));
  return static_cast<int64_t>(here() - start);
}

}  // namespace native

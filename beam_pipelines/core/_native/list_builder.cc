#include "list_builder.h"

#include <algorithm>
#include <cstring>

namespace native {
namespace {

// The most bytes that are allocated in advance.
constexpr size_t kMostExpected = size_t{16} << 20;

size_t bytes_of_bits(int64_t bits) { return static_cast<size_t>(bits + 7) / 8; }

}  // namespace

ListBuilder::ListBuilder(ValueKind kind, int64_t num_rows, int64_t size, const TextIds* ids)
    : kind_(kind),
      ids_(ids),
      size_(size),
      num_rows_(num_rows),
      offsets_(size == kAnySize ? static_cast<size_t>(num_rows + 1) * sizeof(int64_t) : 0),
      validity_(size == kAnySize ? bytes_of_bits(num_rows) : 0),
      values_(kind == ValueKind::kList ? 0 : std::min(static_cast<size_t>(num_rows + 1) * width(), kMostExpected)),
      texts_(0),
      values_at_(values_.data()),
      texts_at_(texts_.data()) {
  find_singles_end();
  if (size_ == kAnySize) store<int64_t>(offsets_.data(), 0);
  if (ids_) awaited_.reserve(kMostAwaited);
  if (kind_ != ValueKind::kBytes || ids_) return;
  store<int64_t>(values_at_, 0);  // where the first text begins
  values_at_ += sizeof(int64_t);
}

// Writes the ids of the last texts.
void ListBuilder::find_awaited() {
  uint8_t* to = values_at_ - awaited_.size() * sizeof(int64_t);
  for (const Awaited& one : awaited_) {
    store(to, ids_->find(one.text, one.size, one.hash));
    to += sizeof(int64_t);
  }
  awaited_.clear();
}

void ListBuilder::add_nulls(int64_t row) {
  if (!null_count_) std::memset(validity_.data(), 0xFF, bytes_of_bits(num_rows_));
  null_count_ += row - row_;
  while (row_ < row) {
    validity_.data()[row_ / 8] &= static_cast<uint8_t>(~(1u << row_ % 8));
    end();
  }
}

// Returns the bytes that the next rows will need if they are like the earlier ones.
size_t ListBuilder::expected(size_t used) const {
  const double a_row = static_cast<double>(used) / static_cast<double>(row_ + 1);
  const double rest = 1.05 * a_row * static_cast<double>(num_rows_ - row_);
  return std::min(static_cast<size_t>(std::max(rest, 0.0)), kMostExpected);
}

void ListBuilder::grow_values(size_t values) {
  const size_t used = static_cast<size_t>(values_at_ - values_.data());
  values_at_ = values_.room(values_at_, values * width() + expected(used + values * width()));
  find_singles_end();
}

void ListBuilder::grow_texts(size_t bytes) {
  const size_t used = static_cast<size_t>(texts_at_ - texts_.data());
  texts_at_ = texts_.room(texts_at_, bytes + expected(used + bytes));
}

void ListBuilder::grow_rows(int64_t least, double times) {
  const int64_t before = num_rows_;
  num_rows_ = least + static_cast<int64_t>(static_cast<double>(least) * (1.05 * times - 1)) + 64;
  if (size_ != kAnySize) return;
  offsets_.room(offsets_.data() + static_cast<size_t>(before + 1) * sizeof(int64_t), static_cast<size_t>(num_rows_ - before) * sizeof(int64_t));
  const size_t more_bits = bytes_of_bits(num_rows_) - bytes_of_bits(before);
  uint8_t* const bits = validity_.room(validity_.data() + bytes_of_bits(before), more_bits);
  if (null_count_) std::memset(bits, 0xFF, more_bits);
}

ListColumn ListBuilder::finish(int64_t num_rows) {
  if (row_ < num_rows) add_nulls(num_rows);
  find_awaited();
  ListColumn column;
  column.size = size_;
  column.null_count = null_count_;
  column.num_values = count_;
  if (size_ == kAnySize) column.offsets = offsets_.release(static_cast<size_t>(num_rows + 1) * sizeof(int64_t));
  if (kind_ != ValueKind::kList) column.values = values_.release(static_cast<size_t>(values_at_ - values_.data()));
  if (null_count_) column.validity = validity_.release(bytes_of_bits(num_rows));
  if (kind_ == ValueKind::kBytes && !ids_) column.texts = texts_.release(static_cast<size_t>(texts_at_ - texts_.data()));
  return column;
}

}  // namespace native

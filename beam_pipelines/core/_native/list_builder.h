// A growing column of lists, or of rows with equally many values, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.h"
#include "farmhash.h"
#include "lookup.h"
#include "memory.h"

namespace native {

// The type of a list's values; those of kList are lists of another builder.
enum class ValueKind : uint8_t { kBytes, kFloat, kInt64, kList };

// The size of lists with any number of values.
constexpr int64_t kAnySize = -1;

// The buffers of an Arrow array of lists, and of its values; to be passed to give_back.
struct ListColumn {
  int64_t size = kAnySize;  // of each list
  int64_t null_count = 0, num_values = 0;
  Memory validity = {};  // none without nulls
  Memory offsets = {};   // int64; none of lists with a size
  Memory values = {};    // int64, float, ids (int64) of texts, or offsets (int64) of texts
  Memory texts = {};
};

class ListBuilder {
 public:
  // `size`: of each list; with another than kAnySize, no row is null or has another number of values. `ids`: of texts, which it has in
  // their place; their bytes must be there until it is finished.
  ListBuilder(ValueKind kind, int64_t num_rows, int64_t size = kAnySize, const TextIds* ids = nullptr);

  ValueKind kind() const { return kind_; }

  // Begins the list of a row; skipped rows are null. Returns false if the row has a list already, or
  // not all rows before have the size.
  bool begin(int64_t row) {
    if (row != row_) {
      if (row < row_ || size_ != kAnySize) return false;
      add_nulls(row);
    }
    prefetch();
    return true;
  }

  // Adds a row with one number, if it is next and there is room; otherwise the row is to be begun.
  template <typename Value>
  bool add_single(int64_t row, Value value) {
    if (!has_room(row, sizeof(Value))) return false;
    __builtin_prefetch(values_at_ + kPrefetched, 1);
    store(values_at_, value);
    values_at_ += sizeof(Value);
    end_single();
    return true;
  }

  // Does so with a text.
  bool add_single_text(int64_t row, const uint8_t* from, size_t size, size_t readable) {
    if (!has_room(row, sizeof(int64_t))) return false;
    if (ids_) {
      __builtin_prefetch(values_at_ + kPrefetched, 1);
      add_id(from, size);
    } else {
      if (static_cast<size_t>(texts_.end() - texts_at_) < size) return false;
      __builtin_prefetch(texts_at_ + kPrefetched, 1);
      put_text(from, size, readable);
    }
    end_single();
    return true;
  }

  // Allocates more rows than `num_rows`, if there is no room for so many. `times`: of all rows those that will be there.
  void reserve_rows(int64_t rows, double times) {
    if (num_rows_ - row_ < rows) grow_rows(row_ + rows, times);
  }

  // The next row, if all before have the size.
  int64_t row() const { return row_; }
  bool is_damaged() const { return row_ == kNoRow; }

  // Counts lists of the other builder.
  void add_lists(int64_t count) { count_ += count; }

  // Ends the list that was begun.
  void end() {
    ++row_;
    if (size_ == kAnySize) store(offsets_.data() + static_cast<size_t>(row_) * sizeof(int64_t), count_);
    else if (count_ != row_ * size_) row_ = kNoRow;
  }

  // Makes the row that was begun null.
  void end_null() {
    if (size_ == kAnySize) add_nulls(row_ + 1);
    else row_ = kNoRow;
  }

  // Whether the column has all rows, or the missing ones are null.
  bool is_whole(int64_t num_rows) const { return size_ == kAnySize || row_ == num_rows; }

  // Allocates values, before they are added, and bytes of texts.
  void reserve(size_t values, size_t text_bytes = 0) {
    if (static_cast<size_t>(values_.end() - values_at_) < values * width()) grow_values(values);
    if (!ids_ && static_cast<size_t>(texts_.end() - texts_at_) < text_bytes) grow_texts(text_bytes);
  }

  // The place for integers; `end_integers` takes the end of those written.
  static constexpr size_t kIntegerStep = sizeof(int64_t);
  uint8_t* integers() { return values_at_; }
  void end_integers(uint8_t* end) {
    count_ += (end - values_at_) / static_cast<std::ptrdiff_t>(kIntegerStep);
    values_at_ = end;
  }

  // Whether a row may have one value.
  bool has_singles() const { return size_ == 1 || size_ == kAnySize; }

  // The place for numbers that are all of a row each; `end_singles` takes the end of those written. There is room for both.
  uint8_t* singles() { return values_at_; }
  void end_singles(uint8_t* end) {
    const int64_t rows = (end - values_at_) / static_cast<std::ptrdiff_t>(width());
    values_at_ = end;
    if (size_ == kAnySize) {
      uint8_t* const offsets = offsets_.data() + static_cast<size_t>(row_) * sizeof(int64_t);
      for (int64_t row = 1; row <= rows; ++row) store(offsets + static_cast<size_t>(row) * sizeof(int64_t), count_ + row);
    }
    row_ += rows;
    count_ += rows;
  }

  void add_floats(const uint8_t* from, size_t count) {
    if (count == 1) std::memcpy(values_at_, from, sizeof(float));
    else std::memcpy(values_at_, from, count * sizeof(float));
    values_at_ += count * sizeof(float);
    count_ += static_cast<int64_t>(count);
  }

  // `readable`: bytes from `from` on that may be read.
  void add_text(const uint8_t* from, size_t size, size_t readable) {
    if (ids_) add_id(from, size);
    else put_text(from, size, readable);
    ++count_;
  }

  // Releases the buffers of `num_rows` rows; missing rows at the end are null. Throws InvalidData where an index is of other texts.
  ListColumn finish(int64_t num_rows);

 private:
  // A text whose slot was prefetched.
  struct Awaited {
    const uint8_t* text;
    size_t size;
    uint64_t hash;
  };

  void put_text(const uint8_t* from, size_t size, size_t readable) {
    copy(texts_at_, from, size, readable);
    texts_at_ += size;
    store(values_at_, static_cast<int64_t>(texts_at_ - texts_.data()));
    values_at_ += sizeof(int64_t);
  }

  void add_id(const uint8_t* text, size_t size) {
    const uint64_t hash = fingerprint(text, size);
    values_at_ += sizeof(int64_t);
    if (!ids_->has_texts()) return store(values_at_ - sizeof(int64_t), ids_->find(text, size, hash));
    ids_->prefetch(hash);
    awaited_.push_back({text, size, hash});
    if (awaited_.size() == kMostAwaited) find_awaited();
  }

  // With many columns, the processor does not prefetch the next places to write: this does, two cache lines ahead.
  void prefetch() const {
    if (size_ == kAnySize) __builtin_prefetch(offsets_.data() + static_cast<size_t>(row_) * sizeof(int64_t) + kPrefetched, 1);
    __builtin_prefetch(values_at_ + kPrefetched, 1);
    __builtin_prefetch(texts_at_ + kPrefetched, 1);
  }

  // Whether a row is next and may have one value, and there is room for it.
  bool has_room(int64_t row, size_t value_size) const {
    return row == row_ && values_at_ + value_size <= singles_end_;
  }

  // Ends a list that has one value, which is not counted yet.
  void end_single() {
    ++count_;
    ++row_;
    if (size_ == kAnySize) store(offsets_.data() + static_cast<size_t>(row_) * sizeof(int64_t), count_);
  }

  static constexpr size_t kPrefetched = 128;
  static constexpr size_t kMostAwaited = 8;  // those of all columns are to fit the first cache
  static constexpr int64_t kNoRow = -1;  // a list had another size: no row can begin

  size_t width() const { return kind_ == ValueKind::kFloat ? sizeof(float) : sizeof(int64_t); }
  void find_singles_end() { singles_end_ = has_singles() ? values_.end() : nullptr; }
  void find_awaited();
  void grow_rows(int64_t least, double times);
  void add_nulls(int64_t row);
  void grow_values(size_t values);
  void grow_texts(size_t bytes);
  size_t expected(size_t used) const;

  ValueKind kind_;
  const TextIds* ids_;
  int64_t size_, num_rows_, row_ = 0, count_ = 0, null_count_ = 0;
  Buffer offsets_, validity_, values_, texts_;
  uint8_t *values_at_, *texts_at_;  // what is written next
  uint8_t* singles_end_ = nullptr;  // of the space for values, where a row may have one
  std::vector<Awaited> awaited_;    // the last texts, whose ids are not there yet
};

}  // namespace native

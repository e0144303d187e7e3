#include "hash.h"

#include <memory>
#include <string>

#include "bytes.h"

namespace native {
namespace {

constexpr uint64_t kNull = 0x6E756C6C6E756C6Cu;    // "nullnull"
constexpr uint64_t kNanBits = 0x7FF8000000000000u;
constexpr int64_t kWord = 8;

// Constants of the seed.
struct Seeded {
  explicit Seeded(uint64_t seed_) : seed(seed_), increment(kGolden + seed_), null(mix(kNull + seed_)) {
    for (uint64_t place = 0; place < kPlaces; ++place) keys[place] = mix((place + 1) * kGolden + seed);
  }

  // The key of the word or value number `place` (0, 1, …) of a text or list.
  uint64_t key(int64_t place) const {
    return place < kPlaces ? keys[place] : mix((static_cast<uint64_t>(place) + 1) * kGolden + seed);
  }

  static constexpr int64_t kPlaces = 64;
  uint64_t seed, increment, null;
  uint64_t keys[kPlaces];
};

// mix(value + G + seed), of the value as int64.
inline uint64_t hash_number(int64_t value, const Seeded& seeded) { return mix(static_cast<uint64_t>(value) + seeded.increment); }

// The same, of the bits of the float64, with one zero and one NaN.
inline uint64_t hash_float(double value, const Seeded& seeded) {
  const uint64_t bits = value != value ? kNanBits : load<uint64_t>(&(value += 0.0));  // -0.0 + 0.0 is 0.0
  return mix(bits + seeded.increment);
}

// mix(length + G + seed + sum over k of mix(word[k] xor key[k])), of little-endian words, the last one padded with zeros.
inline uint64_t hash_text(const uint8_t* text, int64_t size, int64_t readable, const Seeded& seeded) {
  uint64_t sum = 0;
  int64_t place = 0, left = size;
  for (; left >= kWord; left -= kWord, ++place) sum += mix(load<uint64_t>(text + kWord * place) ^ seeded.key(place));
  if (left) {
    uint64_t word = 0;
    if (kWord * place + kWord <= readable) {
      word = load<uint64_t>(text + kWord * place) & ((uint64_t{1} << 8 * left) - 1);
    } else {
      std::memcpy(&word, text + kWord * place, static_cast<size_t>(left));
    }
    sum += mix(word ^ seeded.key(place));
  }
  return mix(static_cast<uint64_t>(size) + seeded.increment + sum);
}

// Calls emit(place, hash) for the values of rows from `begin` to `end`, with places from 0; `hash_valid` hashes one that is not null.
template <typename Emit, typename HashValid>
inline void each(const Column& column, int64_t begin, int64_t end, const Seeded& seeded, Emit emit, HashValid hash_valid) {
  if (!column.validity) {
    for (int64_t row = begin; row < end; ++row) emit(row - begin, hash_valid(row));
    return;
  }
  for (int64_t row = begin; row < end; ++row) emit(row - begin, column.is_valid(row) ? hash_valid(row) : seeded.null);
}

uint64_t hash_value(const Column& column, int64_t row, const Seeded& seeded);

template <typename Offset, typename Emit>
inline void each_text(const Column& column, int64_t begin, int64_t end, const Seeded& seeded, Emit emit) {
  each(column, begin, end, seeded, emit, [&](int64_t row) {
    const Range range = column.range<Offset>(row);
    return hash_text(column.data + range.begin, range.end - range.begin, column.limits.end - range.begin, seeded);
  });
}

// Calls emit(place, hash) for each of the rows' values, whatever their type.
template <typename Emit>
void each_hash(const Column& column, int64_t begin, int64_t end, const Seeded& seeded, Emit emit) {
  const auto number = [&](auto type) {
    using Value = decltype(type);
    each(column, begin, end, seeded, emit, [&](int64_t row) { return hash_number(column.value<Value>(row), seeded); });
  };
  switch (column.kind) {
    case Kind::kBool:
      return each(column, begin, end, seeded, emit, [&](int64_t row) { return hash_number(column.bit(row), seeded); });
    case Kind::kInt8:
      return number(int8_t{});
    case Kind::kInt16:
      return number(int16_t{});
    case Kind::kInt32:
      return number(int32_t{});
    case Kind::kInt64:
    case Kind::kTime64:
      return number(int64_t{});
    case Kind::kFloat:
      return each(column, begin, end, seeded, emit, [&](int64_t row) { return hash_float(column.value<float>(row), seeded); });
    case Kind::kDouble:
      return each(column, begin, end, seeded, emit, [&](int64_t row) { return hash_float(column.value<double>(row), seeded); });
    case Kind::kBytes:
      return each_text<int32_t>(column, begin, end, seeded, emit);
    case Kind::kLargeBytes:
      return each_text<int64_t>(column, begin, end, seeded, emit);
    case Kind::kList:
    case Kind::kLargeList:
    case Kind::kFixedSizeList:
    case Kind::kDictionary:
      for (int64_t row = begin; row < end; ++row) emit(row - begin, hash_value(column, row, seeded));
  }
}

// The hash of a list is that of a text, of the hashes of its values instead of words.
uint64_t hash_value(const Column& column, int64_t row, const Seeded& seeded) {
  const Place place = place_of(&column, row);
  uint64_t sum = 0;
  if (!place.column) return seeded.null;
  if (!place.column->is_list()) {
    each_hash(*place.column, place.row, place.row + 1, seeded, [&](int64_t, uint64_t hash) { sum = hash; });
    return sum;
  }
  const Range range = place.column->list_range(place.row);
  each_hash(*place.column->child, range.begin, range.end, seeded, [&](int64_t at, uint64_t hash) { sum += mix(hash ^ seeded.key(at)); });
  return mix(static_cast<uint64_t>(range.end - range.begin) + seeded.increment + sum);
}

}  // namespace

void hash_column(const Column& column, uint64_t seed, uint64_t* out) {
  each_hash(column, 0, column.length, Seeded(seed), [&](int64_t row, uint64_t hash) { out[row] = hash; });
}

// From h = mix(seed), column by column, h = mix((h xor hash of the value) + G).
void hash_rows(const std::vector<Column>& columns, int64_t count, uint64_t seed, uint64_t* out) {
  const Seeded seeded(seed);
  for (int64_t row = 0; row < count; ++row) out[row] = mix(seed);
  for (const Column& column : columns) {
    each_hash(column, 0, count, seeded, [&](int64_t row, uint64_t hash) { out[row] = mix((out[row] ^ hash) + kGolden); });
  }
}

}  // namespace native

#include "take.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "bytes.h"

namespace native {
namespace {

// Rows between the prefetch of a text's bytes and their copy; twice as many for its offsets.
constexpr int64_t kAhead = 16;

Memory take_bits(const uint8_t* bits, int64_t offset, const Selection& rows) {
  const size_t size = static_cast<size_t>(rows.count + 7) / 8;
  Buffer out(size);
  gather_bits(bits, offset, rows, out.data());
  return out.release(size);
}

int64_t count_zeros(const Memory& bits, int64_t count) {
  int64_t ones = 0;
  for (int64_t place = 0; place < (count + 7) / 8; ++place) ones += __builtin_popcount(bits.data[place]);
  return count - ones;
}

template <typename Value>
Memory take_values(const Column& column, const Selection& rows) {
  const size_t size = static_cast<size_t>(rows.count) * sizeof(Value);
  Buffer out(size);
  gather_values<Value>(column, rows, out.data());
  return out.release(size);
}

// The texts are contiguous, in the order of the rows; space is for slightly more than their share.
template <typename Offset>
void take_texts(const Column& column, const Selection& rows, Taken& taken) {
  const double share = column.length ? static_cast<double>(rows.count) / static_cast<double>(column.length) : 0;
  const size_t offsets_size = static_cast<size_t>(rows.count + 1) * sizeof(Offset);
  Buffer offsets(offsets_size);
  Buffer texts(static_cast<size_t>(static_cast<double>(column.limits.end - column.limits.begin) * std::min(share, 1.0) * 1.02) + 16);
  uint8_t *to = offsets.data(), *at = texts.data();
  for (int64_t place = 0; place < rows.count; ++place, to += sizeof(Offset)) {
    if (place + 2 * kAhead < rows.count) {
      __builtin_prefetch(column.fixed + static_cast<size_t>(column.offset + rows[place + 2 * kAhead]) * sizeof(Offset));
      __builtin_prefetch(column.data + column.range<Offset>(rows[place + kAhead]).begin);
    }
    const Range range = column.range<Offset>(rows[place]);
    const size_t size = static_cast<size_t>(range.end - range.begin);
    store(to, static_cast<Offset>(at - texts.data()));
    at = texts.room(at, size);
    copy(at, column.data + range.begin, size, static_cast<size_t>(column.limits.end - range.begin));
    at += size;
    if (at - texts.data() > std::numeric_limits<Offset>::max()) {
      throw InvalidData("found more than 2 GiB of texts in the rows to take, expected fewer");
    }
  }
  store(to, static_cast<Offset>(at - texts.data()));
  taken.fixed = offsets.release(offsets_size);
  taken.texts = texts.release(static_cast<size_t>(at - texts.data()));
}

}  // namespace

Taken::~Taken() {
  for (const Memory& memory : {validity, fixed, texts}) give_back(memory);
}

void Taken::swap(Taken& other) noexcept {
  std::swap(format, other.format);
  std::swap(validity, other.validity);
  std::swap(fixed, other.fixed);
  std::swap(texts, other.texts);
  std::swap(null_count, other.null_count);
}

Taken take(const Column& column, const Selection& rows) {
  Taken taken;
  switch (column.kind) {
    case Kind::kBool:
      taken.format = "b";
      taken.fixed = take_bits(column.fixed, column.offset, rows);
      break;
    case Kind::kInt8:
      taken.format = "c";
      taken.fixed = take_values<uint8_t>(column, rows);
      break;
    case Kind::kInt16:
      taken.format = "s";
      taken.fixed = take_values<uint16_t>(column, rows);
      break;
    case Kind::kInt32:
    case Kind::kFloat:
      taken.format = "i";
      taken.fixed = take_values<uint32_t>(column, rows);
      break;
    case Kind::kInt64:
    case Kind::kTime64:
    case Kind::kDouble:
      taken.format = "l";
      taken.fixed = take_values<uint64_t>(column, rows);
      break;
    case Kind::kBytes:
      taken.format = "z";
      take_texts<int32_t>(column, rows, taken);
      break;
    case Kind::kLargeBytes:
      taken.format = "Z";
      take_texts<int64_t>(column, rows, taken);
      break;
    default:
      return taken;
  }
  if (column.validity) {
    taken.validity = take_bits(column.validity, column.offset, rows);
    taken.null_count = count_zeros(taken.validity, rows.count);
  }
  return taken;
}

}  // namespace native

#include "lookup.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "farmhash.h"

namespace native {
namespace {

// Texts whose slots are prefetched before the first of them is looked up.
constexpr int64_t kBlock = 32;

void check_texts(const Column& column) {
  if (column.kind != Kind::kBytes && column.kind != Kind::kLargeBytes) throw UnknownType("");
}

uint64_t hash_of(const Column& texts, const Range& range) {
  return fingerprint(texts.data + range.begin, static_cast<size_t>(range.end - range.begin));
}

}  // namespace

size_t slots_for(int64_t texts) {
  size_t count = 2;
  while (count < 2 * static_cast<size_t>(texts)) count *= 2;
  return count;
}

Memory index_texts(const Column& texts) {
  check_texts(texts);
  if (texts.length >= UINT32_MAX) throw InvalidData("found 2^32 texts or more, expected fewer");
  const size_t count = slots_for(texts.length);
  Buffer out(count * sizeof(uint64_t));
  auto* slots = reinterpret_cast<uint64_t*>(out.data());
  std::fill_n(slots, count, 0);
  for (int64_t number = 0; number < texts.length; ++number) {
    const uint64_t hash = hash_of(texts, texts.bytes_range(number));
    size_t place = hash & (count - 1);
    while (slots[place]) place = (place + 1) & (count - 1);
    slots[place] = hash >> 32 << 32 | static_cast<uint64_t>(number + 1);
  }
  return out.release(count * sizeof(uint64_t));
}

TextIds::TextIds(const Column& known, const Slots& slots, uint64_t num_oov)
    : known_(&known), slots_(slots), num_oov_(num_oov), inverse_(num_oov ? UINT64_MAX / num_oov : 0) {
  check_texts(known);
  if (slots.count & (slots.count - 1) || (!slots.count && known.length) ||
      num_oov > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - known.length)) {
    throw InvalidData("found other slots or ids of other texts, expected what index_texts returns");
  }
}

int64_t TextIds::search(const uint8_t* text, size_t size, uint64_t hash) const {
  for (size_t step = 0; step < slots_.count; ++step) {
    const uint64_t slot = slots_.slots[(hash + step) & (slots_.count - 1)];
    if (!slot) return kUnseen;
    if ((slot ^ hash) >> 32) continue;
    const int64_t number = static_cast<int64_t>(slot & UINT32_MAX) - 1;
    if (number < 0 || number >= known_->length) throw InvalidData("found an index of other texts");
    const Range own = known_->bytes_range(number);
    if (static_cast<size_t>(own.end - own.begin) == size && std::memcmp(known_->data + own.begin, text, size) == 0) return number;
  }
  return kUnseen;
}

void look_up(const Column& texts, const TextIds& ids, int64_t* out) {
  check_texts(texts);
  std::array<Range, kBlock> ranges;
  std::array<uint64_t, kBlock> hashes;
  for (int64_t first = 0; first < texts.length; first += kBlock, out += kBlock) {
    const size_t count = static_cast<size_t>(std::min(kBlock, texts.length - first));
    for (size_t place = 0; place < count; ++place) {
      ranges[place] = texts.bytes_range(first + static_cast<int64_t>(place));
      hashes[place] = hash_of(texts, ranges[place]);
      if (ids.has_texts()) ids.prefetch(hashes[place]);
    }
    for (size_t place = 0; place < count; ++place) {
      const bool is_valid = texts.is_valid(first + static_cast<int64_t>(place));
      const Range& range = ranges[place];
      out[place] = is_valid ? ids.find(texts.data + range.begin, static_cast<size_t>(range.end - range.begin), hashes[place]) : TextIds::kUnseen;
    }
  }
}

}  // namespace native

#include "farmhash.h"

#include <utility>

#include "bytes.h"

// The formulas are `farmhashna::Hash64` of google/farmhash (src/farmhash.cc), one for each class of lengths.

namespace native {
namespace {

constexpr uint64_t kK0 = 0xC3A5C85C97CB3127u;
constexpr uint64_t kK1 = 0xB492B66FBE98F273u;
constexpr uint64_t kK2 = 0x9AE16A3B2F90404Fu;
constexpr size_t kBlock = 64;

inline uint64_t word(const uint8_t* at) { return load<uint64_t>(at); }
inline uint64_t half(const uint8_t* at) { return load<uint32_t>(at); }
inline uint64_t rotate(uint64_t value, unsigned bits) { return value >> bits | value << (64 - bits); }
inline uint64_t shift_mix(uint64_t value) { return value ^ value >> 47; }

inline uint64_t hash_pair(uint64_t first, uint64_t second, uint64_t factor) {
  const uint64_t mixed = shift_mix((first ^ second) * factor);
  return shift_mix((second ^ mixed) * factor) * factor;
}

inline uint64_t factor_of(size_t size) { return kK2 + size * 2; }

uint64_t hash_to_16(const uint8_t* text, size_t size) {
  if (size >= 8) {
    const uint64_t factor = factor_of(size), a = word(text) + kK2, b = word(text + size - 8);
    return hash_pair(rotate(b, 37) * factor + a, (rotate(a, 25) + b) * factor, factor);
  }
  if (size >= 4) return hash_pair(size + (half(text) << 3), half(text + size - 4), factor_of(size));
  if (size == 0) return kK2;
  const uint64_t low = text[0] + (uint64_t{text[size >> 1]} << 8), high = size + (uint64_t{text[size - 1]} << 2);
  return shift_mix(low * kK2 ^ high * kK0) * kK2;
}

uint64_t hash_to_32(const uint8_t* text, size_t size) {
  const uint8_t* end = text + size;
  const uint64_t factor = factor_of(size), a = word(text) * kK1, b = word(text + 8);
  const uint64_t c = word(end - 8) * factor, d = word(end - 16) * kK2;
  return hash_pair(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + kK2, 18) + c, factor);
}

uint64_t hash_to_64(const uint8_t* text, size_t size) {
  const uint8_t* end = text + size;
  const uint64_t factor = factor_of(size), a = word(text) * kK2, b = word(text + 8);
  const uint64_t c = word(end - 8) * factor, d = word(end - 16) * kK2;
  const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
  const uint64_t z = hash_pair(y, a + rotate(b + kK2, 18) + c, factor);
  const uint64_t e = word(text + 16) * factor, f = word(text + 24);
  const uint64_t g = (y + word(end - 32)) * factor, h = (z + word(end - 24)) * factor;
  return hash_pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, factor);
}

using Pair = std::pair<uint64_t, uint64_t>;

// WeakHashLen32WithSeeds.
inline Pair hash_32(const uint8_t* text, uint64_t a, uint64_t b) {
  a += word(text);
  const uint64_t last = word(text + 24), first = a;
  b = rotate(b + a + last, 21);
  a += word(text + 8) + word(text + 16);
  return {a + last, b + rotate(a, 44) + first};
}

// What the blocks of a long text leave behind.
struct State {
  uint64_t x, y, z;
  Pair v{0, 0}, w{0, 0};

  // Takes in a block. The last one has its own factor and counts some terms 9 times.
  void add(const uint8_t* text, uint64_t factor, uint64_t times) {
    x = rotate(x + y + v.first + word(text + 8), 37) * factor;
    y = rotate(y + v.second + word(text + 48), 42) * factor;
    x ^= w.second * times;
    y += v.first * times + word(text + 40);
    z = rotate(z + w.first, 33) * factor;
    v = hash_32(text, v.second * factor, x + w.first);
    w = hash_32(text + 32, z + w.second, y + word(text + 16));
    std::swap(z, x);
  }
};

// The last block may overlap the one before it.
uint64_t hash_long(const uint8_t* text, size_t size) {
  constexpr uint64_t seed = 81;
  State state{seed * kK2 + word(text), seed * kK1 + 113, 0};
  state.z = shift_mix(state.y * kK2 + 113) * kK2;
  for (size_t block = 0; block < (size - 1) / kBlock; ++block) state.add(text + kBlock * block, kK1, 1);
  const uint64_t factor = kK1 + ((state.z & 0xFF) << 1);
  state.w.first += (size - 1) & 63;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.add(text + size - kBlock, factor, 9);
  return hash_pair(hash_pair(state.v.first, state.w.first, factor) + shift_mix(state.y) * kK0 + state.z,
                   hash_pair(state.v.second, state.w.second, factor) + state.x, factor);
}

}  // namespace

uint64_t fingerprint(const uint8_t* text, size_t size) {
  if (size <= 16) return hash_to_16(text, size);
  if (size <= 32) return hash_to_32(text, size);
  return size <= kBlock ? hash_to_64(text, size) : hash_long(text, size);
}

void fingerprints(const Column& column, uint64_t* out) {
  if (column.kind != Kind::kBytes && column.kind != Kind::kLargeBytes) throw UnknownType("");
  for (int64_t place = 0; place < column.length; ++place) {
    const Range range = column.is_valid(place) ? column.bytes_range(place) : Range{0, 0};
    out[place] = fingerprint(column.data + range.begin, static_cast<size_t>(range.end - range.begin));
  }
}

}  // namespace native

#include "shingles.h"

#include <algorithm>
#include <vector>

namespace native {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;  // SplitMix64's increment
constexpr int64_t kCharacters = 5;
constexpr int kBits = 21;                      // of a character
constexpr uint64_t kPadding = (1u << kBits) - 1;  // no character

// Vector instructions are chosen when the program is loaded, by glibc; sanitizers are not ready by then.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define NATIVE_CLONES __attribute__((target_clones("avx2", "sse4.1", "default")))
#else
#define NATIVE_CLONES
#endif

// The finaliser of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
inline uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

// Appends the characters of valid UTF-8. Of other bytes it makes some characters, and reads none behind the end.
void read_characters(const uint8_t* text, int64_t size, std::vector<uint64_t>* characters) {
  characters->clear();
  for (int64_t place = 0; place < size;) {
    const uint8_t first = text[place++];
    int more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    uint64_t value = more == 0 ? first : first & (0x3F >> more);
    for (; more && place < size; --more) value = value << 6 | (text[place++] & 0x3F);
    characters->push_back(value & kPadding);
  }
}

// The hashes of the sequences of kCharacters characters, in order; of a shorter text one, padded.
void read_shingles(const uint8_t* text, int64_t size, std::vector<uint64_t>* characters, std::vector<uint64_t>* shingles) {
  shingles->clear();
  if (!size) return;
  read_characters(text, size, characters);
  while (characters->size() < kCharacters) characters->push_back(kPadding);
  const uint64_t* c = characters->data();
  const size_t count = characters->size() - kCharacters + 1;
  shingles->resize(count);
  for (size_t place = 0; place < count; ++place, ++c) {
    const uint64_t low = c[0] | c[1] << kBits | c[2] << 2 * kBits, high = c[3] | c[4] << kBits;
    (*shingles)[place] = mix(mix(low + kGolden) ^ high);
  }
}

// least[k] = the least (hash * factor[k] + summand[k]) mod 2^32 of the upper halves of the hashes.
NATIVE_CLONES void find_minima(const uint64_t* hashes, size_t count, const uint32_t* factors, const uint32_t* summands, size_t functions,
                               uint32_t* least) {
  std::fill(least, least + functions, UINT32_MAX);
  for (size_t place = 0; place < count; ++place) {
    const uint32_t hash = static_cast<uint32_t>(hashes[place] >> 32);
    for (size_t k = 0; k < functions; ++k) {
      const uint32_t value = hash * factors[k] + summands[k];
      least[k] = value < least[k] ? value : least[k];
    }
  }
}

struct Text {
  const uint8_t* data = nullptr;
  int64_t size = 0;
};

Text text_of(const Column& column, int64_t row) {
  const Place place = place_of(&column, row);
  if (!place.column) return {};
  if (place.column->kind != Kind::kBytes && place.column->kind != Kind::kLargeBytes) throw UnknownType("");
  const Range range = place.column->bytes_range(place.row);
  return {place.column->data + range.begin, range.end - range.begin};
}

void sort_set(std::vector<uint64_t>* set) {
  std::sort(set->begin(), set->end());
  set->erase(std::unique(set->begin(), set->end()), set->end());
}

double similarity(const std::vector<uint64_t>& left, const std::vector<uint64_t>& right) {
  size_t both = 0, one = 0, other = 0;
  while (one < left.size() && other < right.size()) {
    const uint64_t a = left[one], b = right[other];
    both += a == b;
    one += a <= b;
    other += b <= a;
  }
  const size_t any = left.size() + right.size() - both;
  return any ? static_cast<double>(both) / static_cast<double>(any) : 0.0;
}

}  // namespace

void band_hashes(const Column& texts, int64_t bands, int64_t rows, uint64_t* out) {
  const size_t functions = static_cast<size_t>(bands * rows);
  std::vector<uint32_t> factors(functions), summands(functions), least(functions);
  for (size_t k = 0; k < functions; ++k) {
    const uint64_t random = mix((k + 1) * kGolden);
    factors[k] = static_cast<uint32_t>(random >> 32) | 1;
    summands[k] = static_cast<uint32_t>(random);
  }
  std::vector<uint64_t> characters, shingles;
  for (int64_t row = 0; row < texts.length; ++row, out += bands + 1) {
    const Text text = text_of(texts, row);
    read_shingles(text.data, text.size, &characters, &shingles);
    if (shingles.empty()) {
      std::fill(out, out + bands + 1, 0);
      continue;
    }
    find_minima(shingles.data(), shingles.size(), factors.data(), summands.data(), functions, least.data());
    for (int64_t band = 0; band < bands; ++band) {
      uint64_t hash = static_cast<uint64_t>(band);
      for (int64_t k = 0; k < rows; ++k) hash = mix((hash ^ least[static_cast<size_t>(band * rows + k)]) + kGolden);
      out[band] = hash;
    }
    uint64_t whole = 0;
    for (const uint64_t shingle : shingles) whole = mix((whole ^ shingle) + kGolden);
    out[bands] = whole;
  }
}

void similarities(const Column& left, const Column& right, double* out) {
  if (left.length != right.length) throw InvalidData("found columns of several lengths, expected pairs");
  std::vector<uint64_t> characters, one, other;
  for (int64_t row = 0; row < left.length; ++row) {
    const Text first = text_of(left, row), second = text_of(right, row);
    read_shingles(first.data, first.size, &characters, &one);
    read_shingles(second.data, second.size, &characters, &other);
    sort_set(&one);
    sort_set(&other);
    out[row] = similarity(one, other);
  }
}

}  // namespace native

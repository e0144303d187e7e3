// The places of features are known: a tf.Example has entries, each with a name and a value. The name of an entry, with the sizes before and
// after it, is most often that of the last entry with this name and these sizes, so one comparison finds a match which often runs on
// into the value. A value is looked up by its first bytes. Only long values, and bytes that are no tf.Example, are searched byte by byte.
#include "deflate.h"

#include <algorithm>
#include <cstring>

#include "bytes.h"
#include "deflate_block.h"

namespace native {
namespace {

constexpr size_t kFrameHead = 12, kFrameTail = 4;       // of a TFRecord frame
constexpr size_t kBlockSize = 256 << 10;                // a block is written when it has so many bytes
constexpr size_t kShortRest = 11;                       // so many bytes of a value are literals, once its first bytes are found nowhere
constexpr unsigned kNameBits = 11, kValueBits = 12, kTextBits = 14;  // of tables, which fit into the first cache
constexpr uint8_t kEntryTag = 0x0A, kNameTag = 0x0A, kValueTag = 0x0A;

inline uint64_t word(const uint8_t* at) { return load<uint64_t>(at); }
inline uint32_t half(const uint8_t* at) { return load<uint32_t>(at); }

inline uint32_t hashed(uint64_t value, unsigned bits) { return static_cast<uint32_t>(value * 0x9E3779B97F4A7C15u >> (64 - bits)); }

// Reads a varint before `end`, and returns the place after it; nullptr if it has no end.
inline const uint8_t* read_varint(const uint8_t* at, const uint8_t* end, uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
    const uint8_t byte = *at++;
    *value |= uint64_t{byte & 0x7Fu} << shift;
    if (!(byte & 0x80)) return at;
  }
  return nullptr;
}

inline const uint8_t* skip_varint(const uint8_t* at, const uint8_t* end) {
  while (at < end && *at & 0x80) ++at;
  return std::min(at + 1, end);
}

// An entry of the map of a tf.Example's features.
struct Entry {
  const uint8_t *start, *name_end, *value, *end;
};

// Reads the entry at `at` before `end`; false for anything else, and for names of 128 bytes and more.
inline bool read_entry(const uint8_t* at, const uint8_t* end, Entry* entry) {
  uint64_t size;
  if (*at != kEntryTag) return false;
  const uint8_t* const name = read_varint(at + 1, end, &size);
  if (!name || size > static_cast<size_t>(end - name) || size < 4) return false;
  entry->start = at;
  entry->end = name + size;
  if (name[0] != kNameTag || name[1] >= 0x80 || size_t{name[1]} + 4 > size) return false;
  entry->name_end = name + 2 + name[1];
  // Tag and size of the feature, tag and size of the list; tag and size of the value, or of the packed values.
  const uint8_t* value = skip_varint(entry->name_end + 1, entry->end);
  if (value < entry->end) value = skip_varint(value + 1, entry->end);
  if (value < entry->end && *value == kValueTag) value = skip_varint(value + 1, entry->end);
  entry->value = value;
  return true;
}

class Matches {
 public:
  Matches(const uint8_t* data, size_t size, uint8_t* out)
      : start_(data), end_(data + size), last_word_(size > 16 ? end_ - 16 : data), block_(data), out_(out) {}

  uint8_t* run() {
    const uint8_t* record = start_;
    while (record < last_word_) {
      const uint64_t size = word(record);
      if (size > static_cast<size_t>(end_ - record) - kFrameHead - kFrameTail || size > kBlockSize) break;
      const uint8_t* const next = record + kFrameHead + size + kFrameTail;
      find_frame(record, size);
      find_features(record + kFrameHead, next - kFrameTail);
      skip_to(next);
      record = next;
      if (at() - block_.start() >= static_cast<ptrdiff_t>(kBlockSize)) block_.write(at(), out_);
    }
    while (at() < end_) {  // a long record, or anything else
      find_text(at() + std::min(kBlockSize, static_cast<size_t>(end_ - at())));
      block_.write(at(), out_);
    }
    if (block_.start() < end_) block_.write(end_, out_);
    // An empty stored block.
    out_.add(0, 3);
    uint8_t* const end = out_.align();
    store(end, uint32_t{0xFFFF0000});
    return end + 4;
  }

 private:
  const uint8_t* at() const { return std::max(at_, block_.end()); }
  void skip_to(const uint8_t* place) { at_ = std::max(at(), place); }

  // Whether a match may have the distance, from a place of this part.
  static bool is_near(size_t distance) { return distance - 1 < kWindow; }

  // The number of equal bytes at two places.
  size_t equal(const uint8_t* place, size_t distance) const {
    const uint8_t *left = place, *right = place - distance;
    for (; end_ - left >= 8; left += 8, right += 8) {
      const uint64_t differs = word(left) ^ word(right);
      if (differs) return static_cast<size_t>(left - place) + (static_cast<unsigned>(__builtin_ctzll(differs)) >> 3);
    }
    while (left < end_ && *left == *right) ++left, ++right;
    return static_cast<size_t>(left - place);
  }

  uint32_t place_of(const uint8_t* at) const { return static_cast<uint32_t>(at - start_) + 1; }  // 0: none

  // Puts a place into a table; returns the distance to the one that was there, or 0.
  size_t exchange(uint32_t* entry, const uint8_t* at) const {
    const uint32_t before = *entry, now = place_of(at);
    *entry = now;
    return before ? now - before : 0;
  }

  // A record of an equal size has the same eight bytes of size, and their checksum.
  void find_frame(const uint8_t* record, uint64_t size) {
    const size_t distance = exchange(&names_[hashed(size, kNameBits)], record);
    if (at() >= record + kFrameHead || !is_near(distance)) return;
    const size_t found = equal(at(), distance);
    if (found >= 4) block_.add(at(), found, distance);
  }

  void find_features(const uint8_t* at_features, const uint8_t* end) {
    uint64_t size;
    const uint8_t* at = end > at_features && *at_features == kEntryTag ? read_varint(at_features + 1, end, &size) : nullptr;
    if (at && size == static_cast<size_t>(end - at)) {
      Entry entry;
      while (at < end && read_entry(at, end, &entry)) {
        find_entry(entry);
        at = entry.end;
      }
      if (at == end) return;
    }
    find_text(end);
  }

  void find_entry(const Entry& entry) {
    // The last bytes of the name, and the size of the feature.
    const size_t name = exchange(&names_[hashed(word(entry.name_end - 6), kNameBits)], entry.start);
    const size_t value_size = static_cast<size_t>(entry.end - entry.value);
    size_t value = 0;
    if (value_size && end_ - entry.value >= 8) {
      uint64_t first = word(entry.value);
      if (value_size < 8) first &= (uint64_t{1} << 8 * value_size) - 1;
      const uint64_t kind = value_size * uint64_t{0x1234567} + entry.name_end[-1] * uint64_t{0x5555555};
      value = exchange(&values_[hashed(first + kind, kValueBits)], entry.value);
    }
    if (at() >= entry.end || entry.start >= last_word_) return;
    size_t found = is_near(value) && at() <= entry.value ? equal(entry.value, value) : 0;
    if (found < kLeastMatch || (found < value_size && found < 6)) found = 0;
    if (at() < entry.value) {
      // Bytes before the entry are compared, too: those of the record's head, if they are in no match.
      const size_t head = is_near(name) && name <= static_cast<size_t>(at() - start_) ? equal(at(), name) : 0;
      const uint8_t* const head_end = at() + head;
      if (found && head_end >= entry.value && entry.value + found > head_end + 1) {
        const size_t before = static_cast<size_t>(entry.value - at());
        if (before >= 4) block_.add(at(), before, name);
        block_.add(entry.value, found, value);
        return;
      }
      if (head >= 4) {
        block_.add(at(), head, name);
      }
      if (at() < entry.value) find_text(entry.value);
      skip_to(entry.value);
    }
    if (at() >= entry.end) return;
    if (at() == entry.value && found >= 4) block_.add(at(), found, value);
    if (entry.end - at() <= static_cast<ptrdiff_t>(kShortRest)) {
      skip_to(entry.end);
    } else {
      find_text(entry.end);
    }
  }

  // Searches byte by byte up to `end`; a match may be longer.
  void find_text(const uint8_t* end) {
    const uint8_t *place = at(), *const last = std::min(end, last_word_);
    size_t misses = 0;
    while (place < last) {
      const uint32_t text = half(place);
      size_t distance = exchange(text_entry(text), place);
      if (!is_near(distance) || half(place - distance) != text) {
        place += 1 + (misses++ >> 6);  // bytes that repeat nowhere are skipped faster and faster
        continue;
      }
      misses = 0;
      size_t size = equal(place, distance);
      for (; place > at() && place - distance > start_ && place[-1] == (place - distance)[-1]; ++size) --place;
      block_.add(place, size, distance);
      place = block_.end();
      if (place < last_word_) {
        for (const uint8_t* inside = place - 2; inside < place; ++inside) exchange(text_entry(half(inside)), inside);
      }
    }
    skip_to(end);
  }

  uint32_t* text_entry(uint32_t text) { return &texts_[hashed(text, kTextBits)]; }

  const uint8_t *const start_, *const end_;
  const uint8_t* const last_word_;  // words before it are of the data
  const uint8_t* at_ = start_;      // bytes before it are literals, unless they are in matches
  Block block_;
  BitWriter out_;
  uint32_t names_[1 << kNameBits] = {}, values_[1 << kValueBits] = {}, texts_[1 << kTextBits] = {};
};

}  // namespace

size_t deflate_bound(size_t size) {
  const size_t blocks = size / kBlockSize + 1;
  return Block::stored_size(size) + blocks * Block::stored_size(0) + sizeof(uint64_t) + 5;
}

size_t deflate(const uint8_t* data, size_t size, uint8_t* out) { return static_cast<size_t>(Matches(data, size, out).run() - out); }

}  // namespace native

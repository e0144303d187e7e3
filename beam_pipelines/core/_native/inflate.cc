#include "inflate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bytes.h"
#include "inflate_table.h"

namespace native {
namespace {

// The bits that were not used yet: at least `count` of them.
struct Bits {
  const uint8_t* at;
  const uint8_t* end;
  uint64_t bits = 0;
  unsigned count = 0;
  bool is_beyond = false;  // more bits were used than there are

  // Makes 56 bits available, where eight bytes can be read.
  void refill_fast() {
    bits |= load<uint64_t>(at) << count;
    at += (63 - count) >> 3;
    count |= 56;
  }

  // Does so anywhere, with zeros after the end.
  void refill() {
    while (count <= 56 && at < end) {
      bits |= uint64_t{*at++} << count;
      count += 8;
    }
  }

  void drop(unsigned used) {
    if (used > count) {
      is_beyond = true;
      used = count;
    }
    bits >>= used;
    count -= used;
  }

  unsigned take(unsigned wanted) {
    refill();
    const unsigned found = static_cast<unsigned>(bits & ((uint64_t{1} << wanted) - 1));
    drop(wanted);
    return found;
  }
};

// Copies a match of at most 258 bytes; writes up to 32 bytes more.
inline void copy_match(uint8_t* to, size_t distance, size_t length) {
  const uint8_t* from = to - distance;
  uint8_t* const end = to + length;
  if (distance >= 16) {
    for (; to < end; to += 32, from += 32) {
      std::memcpy(to, from, 16);
      std::memcpy(to + 16, from + 16, 16);  // a short distance: of what was just written
    }
  } else if (distance >= 8) {
    for (; to < end; to += 8, from += 8) std::memcpy(to, from, 8);
  } else if (distance == 1) {
    std::memset(to, *from, length);
  } else {
    while (to < end) *to++ = *from++;
  }
}

class Inflater {
 public:
  Inflater(const uint8_t* data, size_t size, uint8_t* out, size_t out_size) : bits_{data, data + size}, begin_(out), out_(out), end_(out + out_size) {}

  bool run() {
    while (true) {
      bits_.refill();
      if (!bits_.count) return out_ == end_;  // between two blocks
      const bool is_last = bits_.take(1);
      const unsigned type = bits_.take(2);
      if (!(type == 0 ? take_stored() : type == 1 ? take_fixed() : type == 2 && take_dynamic())) return false;
      if (bits_.is_beyond) return false;
      if (is_last) return out_ == end_;
    }
  }

 private:
  bool take_stored() {
    bits_.drop(bits_.count % 8);
    const unsigned size = bits_.take(16), complement = bits_.take(16);
    if (size != (complement ^ 0xFFFF)) return false;
    bits_.at -= bits_.count / 8;  // whole bytes that were not used
    bits_.bits = bits_.count = 0;
    if (size > static_cast<size_t>(bits_.end - bits_.at) || size > static_cast<size_t>(end_ - out_)) return false;
    std::memcpy(out_, bits_.at, size);
    bits_.at += size;
    out_ += size;
    return true;
  }

  bool take_fixed() {
    std::array<uint8_t, kSymbols> lengths;
    std::array<uint8_t, kDistances> of_distances;
    for (size_t symbol = 0; symbol < kSymbols; ++symbol) lengths[symbol] = symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
    of_distances.fill(5);
    return take_block(lengths.data(), kSymbols, of_distances.data(), kDistances);
  }

  bool take_dynamic() {
    static constexpr uint8_t kOrder[kLengthCodes] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const size_t num_symbols = bits_.take(5) + 257, num_distances = bits_.take(5) + 1, num_lengths = bits_.take(4) + 4;
    if (num_symbols > 286 || num_distances > 30) return false;
    std::array<uint8_t, kLengthCodes> of_lengths{};
    for (size_t place = 0; place < num_lengths; ++place) of_lengths[kOrder[place]] = static_cast<uint8_t>(bits_.take(3));
    if (!lengths_.fill(of_lengths.data(), kLengthCodes, kLengthCodeMeanings.data(), false)) return false;
    std::array<uint8_t, 286 + 30 + 138> lengths;
    const size_t all = num_symbols + num_distances;
    for (size_t place = 0; place < all;) {
      bits_.refill();
      const uint32_t entry = lengths_.find(bits_.bits);
      bits_.drop(entry & kBitsMask);
      const unsigned code = (entry >> kBaseShift) - 1;
      if (code < 16) {
        lengths[place++] = static_cast<uint8_t>(code);
        continue;
      }
      if (code == 16 && !place) return false;
      const uint8_t repeated = code == 16 ? lengths[place - 1] : 0;
      const size_t times = code == 16 ? 3 + bits_.take(2) : code == 17 ? 3 + bits_.take(3) : 11 + bits_.take(7);
      if (times > all - place) return false;
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(place), times, repeated);
      place += times;
    }
    return !bits_.is_beyond && lengths[kEndOfBlock] && take_block(lengths.data(), num_symbols, lengths.data() + num_symbols, num_distances);
  }

  bool take_block(const uint8_t* lengths, size_t num_symbols, const uint8_t* of_distances, size_t num_distances) {
    if (!symbols_.fill(lengths, num_symbols, kSymbolMeanings.data(), false)) return false;
    if (!distances_.fill(of_distances, num_distances, kDistanceMeanings.data(), true)) return false;
    join_literals(&symbols_);
    join_matches(&symbols_, distances_);
    const Progress found = take_fast();
    return found == Progress::kEnd || (found == Progress::kGoOn && take_carefully());
  }

  enum class Progress { kGoOn, kEnd, kDamage };

#if defined(__x86_64__)
  // Shifts by a register's bits are several operations without BMI2.
  __attribute__((target("bmi2"))) Progress take_fast_bmi2() { return take_fast_inline(); }
#endif

  Progress take_fast() {
#if defined(__x86_64__)
    static const bool has_bmi2 = (__builtin_cpu_init(), __builtin_cpu_supports("bmi2"));
    if (has_bmi2) return take_fast_bmi2();
#endif
    return take_fast_inline();
  }

  // Takes symbols while there are bytes to read and space to write for any of them.
  inline __attribute__((always_inline)) Progress take_fast_inline() {
    constexpr std::ptrdiff_t kRead = 32, kWritten = 258 + 64;
    if (bits_.end - bits_.at < kRead || end_ - out_ < kWritten) return Progress::kGoOn;
    const uint8_t* const last_read = bits_.end - kRead;
    uint8_t* const last_written = end_ - kWritten;
    Bits bits = bits_;
    uint8_t* out = out_;
    Progress found = Progress::kGoOn;
    bits.refill_fast();
    uint32_t entry = first_entry(bits);
    while (bits.at <= last_read && out <= last_written) {
      // Of 56 bits, two entries of literals have at most 11 + 11, a length 15 + 5, a match of one entry kMostOfMatch.
      if (entry & kLiterals) {
        out = put_literals(out, entry, &bits);
        entry = first_entry(bits);
        if (entry & kLiterals) {
          out = put_literals(out, entry, &bits);
          entry = first_entry(bits);
          if (entry & kLiterals) {
            out = put_literals(out, entry, &bits);
            bits.refill_fast();
            entry = first_entry(bits);
            continue;
          }
        }
      }
      if (__builtin_expect(entry & kMatch, true)) {
        const Match match = take_match(&bits, entry);
        if (__builtin_expect(match.distance > static_cast<size_t>(out - begin_), false)) {
          found = Progress::kDamage;
          break;
        }
        entry = first_entry(bits);
        bits.refill_fast();
        copy_match(out, match.distance, match.length);
        out += match.length;
        continue;
      }
      if (__builtin_expect(entry & (kSecond | kEnd) || !entry, false)) {
        entry = symbols_.find(bits.bits);
        if (entry & kLiterals) {
          out = put_literals(out, entry, &bits);
          bits.refill_fast();
          entry = first_entry(bits);
          continue;
        }
        if (entry & kEnd || !entry) {
          skip(&bits, entry & kBitsMask);
          found = entry ? Progress::kEnd : Progress::kDamage;
          break;
        }
      }
      const size_t length = take_number(&bits, entry);
      // Looked up before the bits are refilled, which takes time: there are bits enough.
      uint32_t second = distances_.entries[bits.bits & (Distances::kFirstSize - 1)];
      bits.refill_fast();
      if (__builtin_expect(second & kSecond, false)) second = distances_.find(bits.bits);
      const size_t distance = take_number(&bits, second);
      if (__builtin_expect(!second || distance > static_cast<size_t>(out - begin_), false)) {
        found = Progress::kDamage;
        break;
      }
      entry = first_entry(bits);
      bits.refill_fast();
      copy_match(out, distance, length);
      out += length;
    }
    // Bytes whose bits were not used go back.
    bits.at -= bits.count / 8;
    bits.count %= 8;
    bits.bits &= (uint64_t{1} << bits.count) - 1;
    bits_ = bits;
    out_ = out;
    return found;
  }

  uint32_t first_entry(const Bits& bits) const { return symbols_.entries[bits.bits & (Symbols::kFirstSize - 1)]; }

  static uint8_t* put_literals(uint8_t* out, uint32_t entry, Bits* bits) {
    skip(bits, entry & kBitsMask);
    store(out, static_cast<uint16_t>(entry >> kLiteralShift));
    return out + (entry >> kCountShift & 3);
  }

  static void skip(Bits* bits, unsigned used) {
    bits->bits >>= used;
    bits->count -= used;
  }

  // The value of a length or distance, whose bits come next.
  static size_t value_of(uint64_t bits, uint32_t entry) {
    const uint64_t own = bits & ((uint64_t{1} << (entry & kBitsMask)) - 1);
    return (entry >> kBaseShift) + (own >> (entry >> kCodeShift & kCodeMask));
  }

  // Takes a length or distance; all its bits are there.
  static size_t take_number(Bits* bits, uint32_t entry) {
    const uint64_t before = bits->bits;
    skip(bits, entry & kBitsMask);
    return value_of(before, entry);
  }

  struct Match {
    size_t length, distance;
  };

  // Returns the match of one entry, whose bits come next.
  static Match match_of(uint64_t bits, uint32_t entry) {
    const uint64_t own = bits & ((uint64_t{1} << (entry & kBitsMask)) - 1);
    const uint32_t least = kDistanceMeanings[entry >> kDistanceShift & kDistanceMask] >> kBaseShift;
    return {entry >> kBaseShift & kLengthMask, least + (own >> (entry >> kCodeShift & kCodeMask))};
  }

  // Takes it; all its bits are there.
  static Match take_match(Bits* bits, uint32_t entry) {
    const uint64_t before = bits->bits;
    skip(bits, entry & kBitsMask);
    return match_of(before, entry);
  }

  // Takes symbols to the end of the block, with a check of each byte.
  bool take_carefully() {
    while (true) {
      bits_.refill();
      const uint32_t entry = symbols_.find(bits_.bits);
      if (!entry || bits_.is_beyond) return false;
      if (entry & kLiterals) {
        const size_t count = entry >> kCountShift & 3;
        if (count > static_cast<size_t>(end_ - out_)) return false;
        for (size_t byte = 0; byte < count; ++byte) *out_++ = static_cast<uint8_t>(entry >> (kLiteralShift + 8 * byte));
        bits_.drop(entry & kBitsMask);
        continue;
      }
      if (entry & kEnd) {
        bits_.drop(entry & kBitsMask);
        return !bits_.is_beyond;
      }
      Match match;
      if (entry & kMatch) {
        match = match_of(bits_.bits, entry);
        bits_.drop(entry & kBitsMask);
      } else {
        match.length = take_checked(entry);
        bits_.refill();
        const uint32_t second = distances_.find(bits_.bits);
        if (!second) return false;
        match.distance = take_checked(second);
      }
      if (bits_.is_beyond || match.distance > static_cast<size_t>(out_ - begin_) || match.length > static_cast<size_t>(end_ - out_)) return false;
      for (size_t byte = 0; byte < match.length; ++byte, ++out_) *out_ = *(out_ - match.distance);
    }
  }

  size_t take_checked(uint32_t entry) {
    const size_t value = value_of(bits_.bits, entry);
    bits_.drop(entry & kBitsMask);
    return value;
  }

  Bits bits_;
  uint8_t* const begin_;
  uint8_t* out_;
  uint8_t* const end_;
  Symbols symbols_;
  Distances distances_;
  Table<7, kLengthCodes> lengths_;
};

}  // namespace

bool inflate(const uint8_t* data, size_t size, uint8_t* out, size_t out_size) { return Inflater(data, size, out, out_size).run(); }

}  // namespace native

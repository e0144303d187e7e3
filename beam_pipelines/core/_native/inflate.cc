// A code's first bits are the index of a table, whose entry says what they mean, and how many of them. An entry of literals has two where both
// codes are short. Deflate packs bits from the lowest one of each byte up, so the bits of codes are reversed.
#include "inflate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bytes.h"

namespace native {
namespace {

constexpr unsigned kLongestCode = 15;
constexpr size_t kSymbols = 288, kDistances = 32, kLengthCodes = 19;
constexpr size_t kEndOfBlock = 256;

// Entries. The lowest byte is the number of bits of the code, and of the extra bits after it. 0: no code begins so.
// Literals: kLiterals, their number from bit 24 on, two bytes from bit 8 on.
// A length or distance: its least value from bit 16 on; the number of bits of the code alone from bit 8 on.
// kSecond: the place of a second table from bit 16 on. kEnd: the end of the block.
constexpr uint32_t kLiterals = 1u << 31, kSecond = 1u << 15, kEnd = 1u << 14;
constexpr uint32_t kBitsMask = 0x3F;  // a shift by this many of a register's bits is one operation
constexpr unsigned kCodeShift = 8, kCodeMask = 0x1F, kBaseShift = 16, kCountShift = 24, kLiteralShift = 8;

constexpr uint32_t literals(uint32_t count, uint32_t bytes) { return kLiterals | count << kCountShift | bytes << kLiteralShift; }
constexpr uint32_t number(uint32_t base, uint32_t extra) { return base << kBaseShift | extra; }

// Adds the bits of its code to what a symbol means.
constexpr uint32_t with_code(uint32_t meaning, uint32_t bits) {
  if (!meaning) return 0;
  return meaning & kLiterals ? meaning + bits : meaning + bits + (bits << kCodeShift);
}

constexpr std::array<uint32_t, kSymbols> make_symbols() {
  std::array<uint32_t, kSymbols> made{};
  for (uint32_t byte = 0; byte < 256; ++byte) made[byte] = literals(1, byte);
  made[kEndOfBlock] = kEnd;
  for (uint32_t symbol = 257, base = 3; symbol < 285; ++symbol) {
    const uint32_t extra = symbol < 265 ? 0 : (symbol - 261) / 4;
    made[symbol] = number(base, extra);
    base += 1u << extra;
  }
  made[285] = number(258, 0);  // 286 and 287 mean nothing
  return made;
}

constexpr std::array<uint32_t, kDistances> make_distances() {
  std::array<uint32_t, kDistances> made{};
  for (uint32_t symbol = 0, base = 1; symbol < 30; ++symbol) {  // 30 and 31 mean nothing
    const uint32_t extra = symbol < 4 ? 0 : symbol / 2 - 1;
    made[symbol] = number(base, extra);
    base += 1u << extra;
  }
  return made;
}

constexpr std::array<uint32_t, kLengthCodes> make_length_codes() {
  std::array<uint32_t, kLengthCodes> made{};
  for (uint32_t symbol = 0; symbol < kLengthCodes; ++symbol) made[symbol] = number(symbol + 1, 0);  // 0 is no code
  return made;
}

constexpr auto kSymbolEntries = make_symbols();
constexpr auto kDistanceEntries = make_distances();
constexpr auto kLengthCodeEntries = make_length_codes();

unsigned reversed(unsigned code, unsigned bits) {
  unsigned made = 0;
  for (; bits; --bits, code >>= 1) made = made << 1 | (code & 1);
  return made;
}

// The entries of all codes: those of at most `kFirst` bits, then second tables for the rest of longer ones.
template <unsigned kFirst, size_t kMostSymbols>
struct Table {
  static constexpr size_t kFirstSize = size_t{1} << kFirst;
  static constexpr size_t kSecondSize = size_t{1} << (kLongestCode - kFirst);
  std::array<uint32_t, kFirstSize + kMostSymbols * kSecondSize> entries;

  uint32_t find(uint64_t bits) const {
    const uint32_t entry = entries[bits & (kFirstSize - 1)];
    if (!(entry & kSecond) || entry & kLiterals) return entry;
    return entries[(entry >> kBaseShift) + (bits >> kFirst & (kSecondSize - 1))];
  }

  // Fills the table from the number of bits of each symbol's code. Returns false for codes that are not complete;
  // `may_be_single`: a single code of one bit is sound.
  bool fill(const uint8_t* lengths, size_t count, const uint32_t* meanings, bool may_be_single) {
    std::array<unsigned, kLongestCode + 1> counts{}, next{};
    for (size_t symbol = 0; symbol < count; ++symbol) ++counts[lengths[symbol]];
    counts[0] = 0;
    unsigned code = 0, used = 0;
    for (unsigned bits = 1; bits <= kLongestCode; ++bits) {
      code = (code + counts[bits - 1]) << 1;
      next[bits] = code;
      used += counts[bits] << (kLongestCode - bits);
    }
    constexpr unsigned kAll = 1u << kLongestCode;
    const bool is_single = may_be_single && (used == 0 || (used == kAll / 2 && counts[1] == 1));
    if (used != kAll && !is_single) return false;
    std::fill_n(entries.begin(), kFirstSize, 0u);
    size_t end = kFirstSize;
    for (size_t symbol = 0; symbol < count; ++symbol) {
      const unsigned bits = lengths[symbol];
      if (!bits) continue;
      const unsigned place = reversed(next[bits]++, bits);
      const uint32_t entry = with_code(meanings[symbol], bits);
      if (bits <= kFirst) {
        for (size_t at = place; at < kFirstSize; at += size_t{1} << bits) entries[at] = entry;
        continue;
      }
      uint32_t& second = entries[place & (kFirstSize - 1)];
      if (!second) {
        std::fill_n(entries.begin() + static_cast<std::ptrdiff_t>(end), kSecondSize, 0u);
        second = static_cast<uint32_t>(end) << kBaseShift | kSecond;
        end += kSecondSize;
      }
      uint32_t* const table = entries.data() + (second >> kBaseShift);
      for (size_t at = place >> kFirst; at < kSecondSize; at += size_t{1} << (bits - kFirst)) table[at] = entry;
    }
    return true;
  }

  // Joins literals whose codes fit together into one entry.
  void join_literals() {
    for (size_t place = kFirstSize; place-- > 0;) {  // downwards: the entries after the first code are not joined yet
      const uint32_t one = entries[place], bits = one & kBitsMask;
      if (!(one & kLiterals) || bits >= kFirst) continue;
      const uint32_t other = entries[place >> bits];
      const uint32_t both = bits + (other & kBitsMask);
      if (!(other & kLiterals) || other >> kCountShift != (kLiterals | 1u << kCountShift) >> kCountShift || both > kFirst) continue;
      const uint32_t bytes = (one >> kLiteralShift & 0xFF) | (other >> kLiteralShift & 0xFF) << 8;
      entries[place] = with_code(literals(2, bytes), both);
    }
  }
};

using Symbols = Table<11, kSymbols>;
using Distances = Table<9, kDistances>;

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
    if (!lengths_.fill(of_lengths.data(), kLengthCodes, kLengthCodeEntries.data(), false)) return false;
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
    if (!symbols_.fill(lengths, num_symbols, kSymbolEntries.data(), false)) return false;
    if (!distances_.fill(of_distances, num_distances, kDistanceEntries.data(), true)) return false;
    symbols_.join_literals();
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
      // Of 56 bits, two entries of literals and a length have at most 11 + 11 + 15 + 5.
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
      const size_t length = take_checked(entry);
      bits_.refill();
      const uint32_t second = distances_.find(bits_.bits);
      if (!second) return false;
      const size_t distance = take_checked(second);
      if (bits_.is_beyond || distance > static_cast<size_t>(out_ - begin_) || length > static_cast<size_t>(end_ - out_)) return false;
      for (size_t byte = 0; byte < length; ++byte, ++out_) *out_ = *(out_ - distance);
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

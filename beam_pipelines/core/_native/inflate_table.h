// The tables that say what the bits of a deflate block mean.
//
// A code's first bits are the index of an entry, which says what they mean, and how many of them. An entry may have two symbols
// whose codes are short: two literals, or a length and a distance. Deflate packs bits from the lowest one of each byte up, so the bits of
// codes are reversed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace native {

constexpr unsigned kLongestCode = 15;
constexpr size_t kSymbols = 288, kDistances = 32, kLengthCodes = 19;
constexpr size_t kEndOfBlock = 256;

// Entries. The lowest byte is the number of bits of the code, and of the extra bits after it. 0: no code begins so.
// Literals: kLiterals, their number from bit 24 on, two bytes from bit 8 on.
// A length or distance: its least value from bit 16 on; the number of bits of the code alone from bit 8 on.
// kMatch: a length, from bit 16 on, and the symbol of a distance, from bit 25 on, with the number of bits before the distance's extra bits
// from bit 8 on. kSecond: the place of a second table from bit 16 on. kEnd: the end of the block.
constexpr uint32_t kLiterals = 1u << 31, kMatch = 1u << 30, kSecond = 1u << 15, kEnd = 1u << 14;
constexpr uint32_t kBitsMask = 0x3F;  // a shift by this many of a register's bits is one operation
constexpr unsigned kCodeShift = 8, kCodeMask = 0x1F, kBaseShift = 16, kCountShift = 24, kLiteralShift = 8;
constexpr unsigned kLengthMask = 0x1FF, kDistanceShift = 25, kDistanceMask = 0x1F;
// The most bits of a match in one entry: after two entries of literals, those of the next entry are left of 56.
constexpr unsigned kMostOfMatch = 23;

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

constexpr auto kSymbolMeanings = make_symbols();
constexpr auto kDistanceMeanings = make_distances();
constexpr auto kLengthCodeMeanings = make_length_codes();

// The code of a symbol.
struct SymbolCode {
  uint16_t symbol;
  uint16_t code;  // its bits, reversed
  uint8_t bits;   // how many
};

// The entries of all codes: those of at most `kFirst` bits, then second tables for the rest of longer ones.
template <unsigned kFirst, size_t kMostSymbols>
struct Table {
  static constexpr size_t kFirstSize = size_t{1} << kFirst;
  static constexpr size_t kSecondSize = size_t{1} << (kLongestCode - kFirst);
  std::array<uint32_t, kFirstSize + kMostSymbols * kSecondSize> entries;
  std::array<SymbolCode, kMostSymbols> codes;  // the shortest ones first
  size_t num_codes;

  uint32_t find(uint64_t bits) const {
    const uint32_t entry = entries[bits & (kFirstSize - 1)];
    if (!(entry & kSecond) || entry & kLiterals) return entry;
    return entries[(entry >> kBaseShift) + (bits >> kFirst & (kSecondSize - 1))];
  }

  // Fills the table from the number of bits of each symbol's code. Returns false for codes that are not complete;
  // `may_be_single`: a single code of one bit is sound.
  bool fill(const uint8_t* lengths, size_t count, const uint32_t* meanings, bool may_be_single) {
    if (!make_codes(lengths, count, may_be_single)) return false;
    std::fill_n(entries.begin(), kFirstSize, 0u);
    size_t end = kFirstSize;
    for (size_t place = 0; place < num_codes; ++place) {
      const auto [symbol, code, bits] = codes[place];
      const uint32_t entry = with_code(meanings[symbol], bits);
      if (bits <= kFirst) {
        put(entries.data(), kFirstSize, code, bits, entry);
        continue;
      }
      uint32_t& second = entries[code & (kFirstSize - 1)];
      if (!second) {
        std::fill_n(entries.begin() + static_cast<std::ptrdiff_t>(end), kSecondSize, 0u);
        second = static_cast<uint32_t>(end) << kBaseShift | kSecond;
        end += kSecondSize;
      }
      put(entries.data() + (second >> kBaseShift), kSecondSize, code >> kFirst, bits - kFirst, entry);
    }
    return true;
  }

  // Puts an entry at all places that begin with a code.
  static void put(uint32_t* table, size_t size, size_t code, unsigned bits, uint32_t entry) {
    for (size_t at = code; at < size; at += size_t{1} << bits) table[at] = entry;
  }

 private:
  // Numbers the codes by their lengths, then by their symbols.
  bool make_codes(const uint8_t* lengths, size_t count, bool may_be_single) {
    std::array<uint16_t, kLongestCode + 1> counts{}, next{};
    for (size_t symbol = 0; symbol < count; ++symbol) ++counts[lengths[symbol]];
    counts[0] = 0;
    unsigned used = 0;
    num_codes = 0;
    for (unsigned bits = 1; bits <= kLongestCode; ++bits) {
      next[bits] = static_cast<uint16_t>(num_codes);
      num_codes += counts[bits];
      used += unsigned{counts[bits]} << (kLongestCode - bits);
    }
    constexpr unsigned kAll = 1u << kLongestCode;
    const bool is_single = may_be_single && (used == 0 || (used == kAll / 2 && counts[1] == 1));
    if (used != kAll && !is_single) return false;
    for (size_t symbol = 0; symbol < count; ++symbol) {
      if (lengths[symbol]) codes[next[lengths[symbol]]++] = {static_cast<uint16_t>(symbol), 0, lengths[symbol]};
    }
    unsigned code = 0;
    for (size_t place = 0; place < num_codes; ++place) {
      codes[place].code = static_cast<uint16_t>(code);
      // The next number, whose lowest bit is the highest one here.
      unsigned bit = 1u << (codes[place].bits - 1);
      for (; code & bit; bit >>= 1) code ^= bit;
      code |= bit;
    }
    return true;
  }
};

constexpr unsigned kSymbolBits = 11, kDistanceBits = 9;
using Symbols = Table<kSymbolBits, kSymbols>;
using Distances = Table<kDistanceBits, kDistances>;

// Joins literals whose codes fit together into one entry.
inline void join_literals(Symbols* symbols) {
  for (size_t place = 0; place < symbols->num_codes; ++place) {
    const SymbolCode one = symbols->codes[place];
    if (one.symbol >= kEndOfBlock) continue;
    for (size_t second = 0; second < symbols->num_codes; ++second) {
      const SymbolCode other = symbols->codes[second];
      const unsigned bits = one.bits + other.bits;
      if (bits > kSymbolBits) break;
      if (other.symbol >= kEndOfBlock) continue;
      const uint32_t entry = with_code(literals(2, one.symbol | uint32_t{other.symbol} << 8), bits);
      Symbols::put(symbols->entries.data(), Symbols::kFirstSize, one.code | size_t{other.code} << one.bits, bits, entry);
    }
  }
}

// Joins a length and the code of a distance that fit together into one entry.
inline void join_matches(Symbols* symbols, const Distances& distances) {
  for (size_t place = 0; place < symbols->num_codes; ++place) {
    const SymbolCode one = symbols->codes[place];
    const uint32_t meaning = kSymbolMeanings[one.symbol];
    const unsigned extra = meaning & kBitsMask, before = one.bits + extra;
    if (one.symbol <= kEndOfBlock || !meaning || before >= kSymbolBits) continue;
    for (size_t second = 0; second < distances.num_codes; ++second) {
      const SymbolCode other = distances.codes[second];
      const unsigned bits = before + other.bits, all = bits + (kDistanceMeanings[other.symbol] & kBitsMask);
      if (bits > kSymbolBits) break;
      if (!kDistanceMeanings[other.symbol] || all > kMostOfMatch) continue;
      for (uint32_t more = 0; more < 1u << extra; ++more) {
        const uint32_t length = (meaning >> kBaseShift) + more;
        const uint32_t entry = kMatch | uint32_t{other.symbol} << kDistanceShift | length << kBaseShift | bits << kCodeShift | all;
        const size_t code = one.code | size_t{more} << one.bits | size_t{other.code} << before;
        Symbols::put(symbols->entries.data(), Symbols::kFirstSize, code, bits, entry);
      }
    }
  }
}

}  // namespace native

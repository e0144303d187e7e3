// Prefix codes of deflate: made from the numbers of symbols, and described in a block's head. Format: RFC 1951, 3.2.2 and 3.2.7.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// The code of each symbol: its bits, the first one lowest, and their number. 0: the symbol does not occur.
struct Code {
  uint16_t bits;
  uint8_t size;
};

// Makes the codes of least total size whose longest has `longest` bits. There are always two codes at least: no reader
// takes fewer for an error.
void make_codes(const uint32_t* counts, size_t symbols, unsigned longest, Code* codes);

// Gives codes their bits, from their sizes.
void number_codes(Code* codes, size_t symbols);

}  // namespace native

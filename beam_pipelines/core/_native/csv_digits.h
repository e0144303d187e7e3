// Converts decimal digits to numbers, eight at a time; fractions to the nearest binary number.
#pragma once

#include <cstdint>

#include "bytes.h"
#include "csv_values.h"

namespace native {

// The value of up to eight digits, the first in the lowest byte, above `shift` bits of zeros.
// Returns false if a byte is no digit.
inline bool value_of_digits(uint64_t word, unsigned shift, uint64_t* value) {
  uint64_t digits = word ^ (0x3030303030303030u << shift);
  if (((digits + 0x7676767676767676u) | digits) & 0x8080808080808080u) return false;  // a byte above 9
  digits = digits * 10 + (digits >> 8);  // every second byte: a number of two digits
  *value = ((digits & 0x000000FF000000FFu) * (100 + (uint64_t{1000000} << 32)) +
            (digits >> 16 & 0x000000FF000000FFu) * (1 + (uint64_t{10000} << 32))) >> 32;
  return true;
}

// A text of one or more digits: a number below 2**64, of at most 19 digits after leading zeros.
inline bool parse_digits(Text text, uint64_t* value) {
  if (text.size - 1 < 8 && text.readable >= 8) {
    const unsigned shift = static_cast<unsigned>(64 - 8 * text.size);
    return value_of_digits(load<uint64_t>(text.data) << shift, shift, value);
  }
  if (!text.size) return false;
  const uint8_t* at = text.data;
  const uint8_t* const end = at + text.size;
  while (at < end && *at == '0') ++at;
  if (end - at > 19) return false;
  uint64_t number = 0;
  for (; at < end; ++at) {
    const unsigned digit = *at - unsigned{'0'};
    if (digit > 9) return false;
    number = number * 10 + digit;
  }
  *value = number;
  return true;
}

// A decimal fraction: plus or minus mantissa * 10**exponent.
struct Decimal {
  uint64_t mantissa = 0;
  int exponent = 0;
  bool is_negative = false;
  bool is_long = false;  // the mantissa or the exponent does not fit: only the text has the exact number
};

// Reads -12.34e-5: at least one digit, a point or none, an exponent or none. Returns false for other texts.
bool read_decimal(Text text, Decimal* decimal);

// The nearest number. Returns false if it is infinite, or zero for a text that is not zero.
bool round_decimal(Text text, const Decimal& decimal, float* value);
bool round_decimal(Text text, const Decimal& decimal, double* value);

}  // namespace native

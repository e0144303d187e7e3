// Parses CSV cells to numbers, booleans, dates and times, as sources/text/cells.py does.
//
// Each function returns false for a text whose value it is not certain of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

struct Text {
  const uint8_t* data;
  size_t size;
  size_t readable;  // bytes from `data` on that may be read, `size` or more
};

// An integer from `least` to `most`, possibly with a point and zeros behind it (5.00), and between
// spaces and tabs; negative only if `least` is.
bool parse_integer(Text text, int64_t least, int64_t most, int64_t* value);

// The nearest number of this precision, of two the even one; false for one that is too large.
bool parse_float(Text text, float* value);
bool parse_float(Text text, double* value);

// Whether a zero and another digit begin a number: 007, -07, 00.5. It may be a code.
inline bool leads_with_zero(Text text) {
  if (text.size < 2 || *text.data > '0') return false;  // nearly all
  size_t at = 0;
  while (at < text.size && (text.data[at] == ' ' || text.data[at] == '\t')) ++at;
  if (at < text.size && (text.data[at] == '+' || text.data[at] == '-')) ++at;
  return at + 1 < text.size && text.data[at] == '0' && static_cast<uint8_t>(text.data[at + 1] - '0') <= 9;
}

// Whether a number is whole and has no equal float64, perhaps: digits alone, beyond 2^53.
bool may_be_rounded(Text text, double value);

bool parse_bool(Text text, bool* value);

// 2013-01-31, possibly between spaces and tabs, as days since 1970-01-01.
bool parse_date(Text text, int32_t* days);

// 05:15, 05:15:00, 05:15:00.123456 (1 to 9 digits, zeros from the 7th on), as microseconds since
// midnight.
bool parse_time(Text text, int64_t* micros);

// A date, alone or with a time after a T or a space, as microseconds since 1970-01-01. With
// `has_zone` it needs a time and Z or an offset such as +02:00, +0200 or +02.
bool parse_timestamp(Text text, bool has_zone, int64_t* micros);

// Whether bytes are UTF-8, as RFC 3629 defines it.
bool is_utf8(const uint8_t* data, size_t size);

}  // namespace native

// What the text of a CSV cell means: numbers, booleans, dates and times, exactly as Arrow's CSV reader takes them.
//
// Every function returns false for a text of which it is not certain, whether it means something or not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

struct Text {
  const uint8_t* data;
  size_t size;
  size_t readable;  // bytes from `data` on that may be read, `size` or more
};

// A whole number in decimal from `least` to `most`, perhaps between spaces and tabs; with a minus only where `least` is negative.
bool parse_integer(Text text, int64_t least, int64_t most, int64_t* value);

// The number of this precision that is nearest to a decimal fraction, of two the even one. Not those that are too large.
bool parse_float(Text text, float* value);
bool parse_float(Text text, double* value);

bool parse_bool(Text text, bool* value);

// 2013-01-31, as days since 1970-01-01.
bool parse_date(Text text, int32_t* days);

// 05:15, 05:15:00, 05:15:00.123456 (1 to 6 digits), as microseconds since midnight.
bool parse_time(Text text, int64_t* micros);

// A date, alone or with a time behind a T or a space, as microseconds since 1970-01-01. With `has_zone` there has to be a time and, behind it, Z or an
// offset as +02:00.
bool parse_timestamp(Text text, bool has_zone, int64_t* micros);

// Whether bytes are UTF-8 as RFC 3629 has it.
bool is_utf8(const uint8_t* data, size_t size);

}  // namespace native

#include "csv_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytes.h"
#include "csv_digits.h"

namespace native {
namespace {

constexpr int64_t kSecond = 1000000;  // microseconds
constexpr int64_t kDay = 86400 * kSecond;

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\t'; }

// The text without spaces and tabs around it.
Text trim(Text text) {
  while (text.size && is_space(text.data[text.size - 1])) --text.size;
  for (; text.size && is_space(*text.data); ++text.data, --text.readable) --text.size;
  return text;
}

// The text without a point and zeros behind digits: 5.00 is the integer 5.
Text without_zero_fraction(Text text) {
  size_t size = text.size;
  while (size && text.data[size - 1] == '0') --size;
  if (size > 1 && size < text.size && text.data[size - 1] == '.') text.size = size - 1;
  return text;
}

bool parse_trimmed_integer(Text text, int64_t least, int64_t most, int64_t* value) {
  const bool is_negative = least < 0 && text.size && *text.data == '-';
  if (is_negative || (text.size && *text.data == '+')) text = {text.data + 1, text.size - 1, text.readable - 1};
  uint64_t number;
  if (!parse_digits(text, &number) && !parse_digits(without_zero_fraction(text), &number)) return false;
  // In an unsigned number of 64 bits, -x is the two's complement of x.
  if (number > (is_negative ? uint64_t{0} - static_cast<uint64_t>(least) : static_cast<uint64_t>(most))) return false;
  *value = static_cast<int64_t>(is_negative ? uint64_t{0} - number : number);
  return true;
}

// nan, inf and infinity in any case.
template <typename Float>
bool parse_name(Text text, Float* value) {
  const bool is_negative = text.size && *text.data == '-';
  if (is_negative || (text.size && *text.data == '+')) text = {text.data + 1, text.size - 1, text.readable - 1};
  char name[8];
  if (text.size != 3 && text.size != 8) return false;
  for (size_t place = 0; place < text.size; ++place) name[place] = static_cast<char>(text.data[place] | 0x20);
  if (text.size == 3 && !std::memcmp(name, "nan", 3) && !is_negative) {
    *value = std::numeric_limits<Float>::quiet_NaN();
    return true;
  }
  if (std::memcmp(name, "infinity", text.size)) return false;
  *value = is_negative ? -std::numeric_limits<Float>::infinity() : std::numeric_limits<Float>::infinity();
  return true;
}

template <typename Float>
bool parse_any_float(Text text, Float* value) {
  Decimal decimal;
  if (read_decimal(text, &decimal)) return round_decimal(text, decimal, value);
  if (parse_name(text, value)) return true;
  const Text trimmed = trim(text);
  if (trimmed.size == text.size) return false;
  return read_decimal(trimmed, &decimal) ? round_decimal(trimmed, decimal, value) : parse_name(trimmed, value);
}

// Two digits, or a number above 99.
unsigned two_digits(const uint8_t* at) {
  const unsigned tens = at[0] - unsigned{'0'}, ones = at[1] - unsigned{'0'};
  return tens > 9 || ones > 9 ? 100 : 10 * tens + ones;
}

// Days since 1970-01-01 in the Gregorian calendar. Years begin in March, so that a leap day is the
// last: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
int32_t days_since_epoch(int year, int month, int day) {
  const int shifted = year - (month <= 2);
  const int era = (shifted >= 0 ? shifted : shifted - 399) / 400;
  const int year_of_era = shifted - era * 400;
  const int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

bool parse_ten(const uint8_t* at, int32_t* days) {  // 2013-01-31
  const unsigned century = two_digits(at), rest = two_digits(at + 2), month = two_digits(at + 5), day = two_digits(at + 8);
  if (century > 99 || rest > 99 || at[4] != '-' || at[7] != '-' || month < 1 || month > 12 || day < 1) return false;
  const unsigned year = 100 * century + rest;
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const unsigned last = month == 2 ? 28u + is_leap : 30u + ((month + (month > 7)) & 1);
  if (day > last) return false;
  *days = days_since_epoch(static_cast<int>(year), static_cast<int>(month), static_cast<int>(day));
  return true;
}

// Hours and minutes, as microseconds.
bool parse_minutes(const uint8_t* at, int64_t* micros) {  // 05:15
  const unsigned hour = two_digits(at), minute = two_digits(at + 3);
  *micros = (hour * 60 + minute) * 60 * kSecond;
  return hour < 24 && at[2] == ':' && minute < 60;
}

}  // namespace

bool parse_integer(Text text, int64_t least, int64_t most, int64_t* value) {
  if (parse_trimmed_integer(text, least, most, value)) return true;
  const Text trimmed = trim(text);
  return trimmed.size != text.size && parse_trimmed_integer(trimmed, least, most, value);
}

bool parse_float(Text text, float* value) { return parse_any_float(text, value); }
bool parse_float(Text text, double* value) { return parse_any_float(text, value); }

bool may_be_rounded(Text text, double value) {
  return std::fabs(value) >= 9007199254740992 && std::none_of(text.data, text.data + text.size, [](uint8_t byte) { return byte >= 'A'; });
}

bool parse_bool(Text text, bool* value) {
  static const char* const kTexts[] = {"0", "1", "false", "true", "False", "True", "FALSE", "TRUE"};
  for (size_t place = 0; place < 8; ++place) {
    *value = place % 2;
    if (text.size == std::strlen(kTexts[place]) && !std::memcmp(text.data, kTexts[place], text.size)) return true;
  }
  return false;
}

bool parse_date(Text text, int32_t* days) {
  if (text.size != 10) text = trim(text);
  return text.size == 10 && parse_ten(text.data, days);
}

bool parse_time(Text text, int64_t* micros) {
  if (text.size < 5 || !parse_minutes(text.data, micros)) return false;
  if (text.size == 5) return true;
  if (text.size < 8 || text.data[5] != ':') return false;
  const unsigned second = two_digits(text.data + 6);
  if (second > 59) return false;
  *micros += second * kSecond;
  if (text.size == 8) return true;
  if (text.size < 10 || text.size > 18 || text.data[8] != '.') return false;
  int64_t unit = kSecond;
  for (size_t place = 9; place < text.size; ++place) {
    const unsigned digit = text.data[place] - unsigned{'0'};
    unit /= 10;
    if (digit > 9 || (digit && !unit)) return false;  // parts of a microsecond may only be zeros
    *micros += digit * unit;
  }
  return true;
}

// An offset from UTC at the end of a text, +02, +0200 or +02:00, as microseconds; cuts it off.
static bool cut_offset(Text* text, int64_t* offset) {
  static const size_t kSizes[] = {6, 5, 3};
  for (const size_t size : kSizes) {
    if (text->size < size) continue;
    const uint8_t* const at = text->data + text->size - size;
    if (*at != '+' && *at != '-') continue;
    const unsigned hour = two_digits(at + 1), minute = size == 3 ? 0 : two_digits(at + size - 2);
    if (hour > 23 || minute > 59 || (size == 6 && at[3] != ':')) return false;
    *offset = (*at == '+' ? 1 : -1) * static_cast<int64_t>(hour * 60 + minute) * 60 * kSecond;
    text->size -= size;
    return true;
  }
  return false;
}

bool parse_timestamp(Text text, bool has_zone, int64_t* micros) {
  int32_t days;
  if (text.size < 10 || !parse_ten(text.data, &days)) return false;
  *micros = days * kDay;
  if (text.size == 10) return !has_zone;
  if (text.data[10] != ' ' && text.data[10] != 'T') return false;
  Text time = {text.data + 11, text.size - 11, text.readable - 11};
  if (has_zone && time.size && time.data[time.size - 1] == 'Z') {
    --time.size;
  } else if (has_zone) {
    int64_t offset;
    if (!cut_offset(&time, &offset)) return false;
    *micros -= offset;
  }
  int64_t since_midnight;
  if (!parse_time(time, &since_midnight)) return false;
  *micros += since_midnight;
  return true;
}

// Table 3-7 of the Unicode standard, "Well-Formed UTF-8 Byte Sequences": the number of bytes after the
// first, and the range of the second.
bool is_utf8(const uint8_t* data, size_t size) {
  const uint8_t* const end = data + size;
  while (data < end) {
    if (end - data >= 8 && !(load<uint64_t>(data) & 0x8080808080808080u)) {
      data += 8;
      continue;
    }
    const uint8_t first = *data++;
    if (first < 0x80) continue;
    if (first < 0xC2 || first > 0xF4) return false;
    const int following = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    if (end - data < following) return false;
    const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (*data < least || *data > most) return false;
    for (int place = 1; place < following; ++place) {
      if ((data[place] & 0xC0) != 0x80) return false;
    }
    data += following;
  }
  return true;
}

}  // namespace native

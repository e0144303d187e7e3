#include "csv_digits.h"

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#ifdef __APPLE__
#include <xlocale.h>
#else
#include <locale.h>
#endif

namespace native {
namespace {

__extension__ typedef unsigned __int128 uint128;

constexpr int kMostDigits = 19;        // 10**19 < 2**64
constexpr int kMostFives = 27;         // 5**27 < 2**64
constexpr int kMostExponent = 100000;  // beyond, the C library reads the text

template <typename Float>
struct Format;

// Bits of the significand, with the highest one, which is not stored; the exponent's bias; and the exact powers of ten.
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int kBits = 53, kBias = 1023, kExactTens = 22;
};

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kBits = 24, kBias = 127, kExactTens = 10;
};

constexpr double kTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct Fives {
  uint64_t power[kMostFives + 1];
  constexpr Fives() : power() {
    power[0] = 1;
    for (int place = 1; place <= kMostFives; ++place) power[place] = 5 * power[place - 1];
  }
};
constexpr Fives kFives;

int leading_zeros(uint64_t value) { return __builtin_clzll(value); }

// The number nearest to significand * 2**exponent, of two the even one. The significand's highest bit
// is bit 62 or 63; its lowest one is set if lower bits were cut off. Returns false if the number is
// too large; it is never too small here.
template <typename Float>
bool round_bits(uint64_t significand, int exponent, Float* value) {
  using Bits = typename Format<Float>::Bits;
  constexpr int kBits = Format<Float>::kBits;
  const int zeros = leading_zeros(significand);
  significand = significand << zeros | (significand & 1);  // keeps the mark of cut bits
  exponent -= zeros;
  constexpr int kDropped = 64 - kBits;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  const uint64_t dropped = significand & (2 * kHalf - 1);
  uint64_t kept = significand >> kDropped;
  kept += dropped > kHalf || (dropped == kHalf && (kept & 1));
  // The exponent's field is one less, because the highest bit of `kept` adds one to it; rounded up to the next power of two, it adds two.
  const int field = exponent + 63 + Format<Float>::kBias - 1;
  const uint64_t bits = (static_cast<uint64_t>(field) << (kBits - 1)) + kept;
  if (bits >> (kBits - 1) >= 2 * Format<Float>::kBias + 1) return false;
  const Bits stored = static_cast<Bits>(bits);
  *value = load<Float>(&stored);
  return true;
}

// mantissa * 10**exponent with 128 bits, which hold mantissa * 5**exponent, or mantissa / 5**-exponent with a remainder, exactly.
template <typename Float>
bool round_exactly(uint64_t mantissa, int exponent, Float* value) {
  if (exponent >= 0) {
    const uint128 product = uint128{mantissa} * kFives.power[exponent];
    const uint64_t high = static_cast<uint64_t>(product >> 64);
    const int shift = high ? 64 - leading_zeros(high) : 0;
    const bool is_cut = (product & ((uint128{1} << shift) - 1)) != 0;
    uint64_t significand = static_cast<uint64_t>(product >> shift);
    const int zeros = leading_zeros(significand);
    significand = significand << zeros | is_cut;  // cut off only where zeros is 0
    return round_bits(significand, exponent + shift - zeros, value);
  }
  // Both are shifted up to the highest bit: the quotient has 63 or 64 bits, more than any significand.
  const uint64_t fives = kFives.power[-exponent];
  const int up = leading_zeros(mantissa), fives_up = leading_zeros(fives);
  const uint128 dividend = uint128{mantissa << up} << 63;
  const uint64_t divisor = fives << fives_up;
  const uint64_t quotient = static_cast<uint64_t>(dividend / divisor);
  const bool is_cut = uint128{quotient} * divisor != dividend;
  return round_bits(quotient | is_cut, exponent - 63 + fives_up - up, value);
}

locale_t c_locale() {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

void from_text(const char* text, char** end, float* value) { *value = strtof_l(text, end, c_locale()); }
void from_text(const char* text, char** end, double* value) { *value = strtod_l(text, end, c_locale()); }

// The C library reads numbers with too many digits or too large an exponent for 128 bits.
template <typename Float>
bool round_by_library(Text text, Float* value) {
  char copied[800];  // no number needs more digits to differ from its neighbours
  if (text.size >= sizeof copied || !c_locale()) return false;
  std::memcpy(copied, text.data, text.size);
  copied[text.size] = 0;
  char* end;
  from_text(copied, &end, value);
  return end == copied + text.size && *value != 0 && !std::isinf(*value);
}

template <typename Float>
bool round_any(Text text, const Decimal& decimal, Float* value) {
  constexpr int kExactTens = Format<Float>::kExactTens;
  if (decimal.is_long) return round_by_library(text, value);
  Float found = 0;
  if (decimal.mantissa >> Format<Float>::kBits == 0 && -kExactTens <= decimal.exponent && decimal.exponent <= kExactTens) {
    // Both are exact, so that one operation rounds once: Clinger, "How to read floating point numbers accurately", 1990.
    const Float mantissa = static_cast<Float>(decimal.mantissa);
    found = decimal.exponent < 0 ? mantissa / static_cast<Float>(kTens[-decimal.exponent]) : mantissa * static_cast<Float>(kTens[decimal.exponent]);
  } else if (decimal.mantissa && -kMostFives <= decimal.exponent && decimal.exponent <= kMostFives) {
    if (!round_exactly(decimal.mantissa, decimal.exponent, &found)) return false;
  } else if (decimal.mantissa) {
    return round_by_library(text, value);
  }
  *value = decimal.is_negative ? -found : found;
  return true;
}

// Reads digits, and returns their number.
inline int read_digits(const uint8_t** at, const uint8_t* end, uint64_t* number) {
  const uint8_t* const begin = *at;
  uint64_t eight;
  while (end - *at >= 8 && value_of_digits(load<uint64_t>(*at), 0, &eight)) {
    *number = *number * 100000000 + eight;
    *at += 8;
  }
  for (unsigned digit; *at < end && (digit = **at - unsigned{'0'}) <= 9; ++*at) *number = *number * 10 + digit;
  return static_cast<int>(*at - begin);
}

}  // namespace

bool read_decimal(Text text, Decimal* decimal) {
  const uint8_t* at = text.data;
  const uint8_t* const end = at + text.size;
  if (text.size > (size_t{1} << 20)) return false;
  decimal->is_negative = at < end && *at == '-';
  at += decimal->is_negative || (at < end && *at == '+');
  uint64_t mantissa = 0;
  const uint8_t* first = at;
  const int whole = read_digits(&at, end, &mantissa);
  int fraction = 0;
  if (at < end && *at == '.') {
    ++at;
    fraction = read_digits(&at, end, &mantissa);
  }
  if (whole + fraction == 0) return false;
  int significant = whole + fraction;
  if (significant > kMostDigits) {  // rare: zeros before the others do not count
    for (; first < at && (*first == '0' || *first == '.'); ++first) significant -= *first == '0';
  }
  int exponent = 0;
  if (at < end && (*at | 0x20) == 'e') {
    ++at;
    const bool is_negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    const uint8_t* const digits = at;
    for (unsigned digit; at < end && (digit = *at - unsigned{'0'}) <= 9; ++at) {
      if (exponent < kMostExponent) exponent = exponent * 10 + static_cast<int>(digit);
    }
    if (at == digits) return false;
    if (is_negative) exponent = -exponent;
  }
  decimal->mantissa = mantissa;
  decimal->exponent = exponent - fraction;
  decimal->is_long = significant > kMostDigits || exponent <= -kMostExponent || exponent >= kMostExponent;
  return at == end;
}

bool round_decimal(Text text, const Decimal& decimal, float* value) { return round_any(text, decimal, value); }
bool round_decimal(Text text, const Decimal& decimal, double* value) { return round_any(text, decimal, value); }

}  // namespace native

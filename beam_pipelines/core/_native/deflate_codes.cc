#include "deflate_codes.h"

#include <algorithm>
#include <utility>

namespace native {
namespace {

constexpr size_t kMostSymbols = 288;
constexpr unsigned kLongest = 15;

// Counts how many leaves of the Huffman tree have each depth. The two nodes of least weight are joined, again and again; as joined
// nodes are made in the order of their weights, two queues have them.
void count_depths(const uint32_t* weights, size_t leaves, unsigned longest, unsigned* counts) {
  uint32_t sums[2 * kMostSymbols];
  uint16_t parents[2 * kMostSymbols];
  std::copy_n(weights, leaves, sums);
  size_t leaf = 0, joined = leaves;
  for (size_t made = leaves; made < 2 * leaves - 1; ++made) {
    uint32_t sum = 0;
    for (int child = 0; child < 2; ++child) {
      const size_t least = joined == made || (leaf < leaves && sums[leaf] <= sums[joined]) ? leaf++ : joined++;
      parents[least] = static_cast<uint16_t>(made);
      sum += sums[least];
    }
    sums[made] = sum;
  }
  uint16_t depths[2 * kMostSymbols];
  depths[2 * leaves - 2] = 0;
  for (size_t node = 2 * leaves - 2; node-- > 0;) {
    depths[node] = static_cast<uint16_t>(depths[parents[node]] + 1);
    if (node < leaves) ++counts[std::min<unsigned>(depths[node], longest)];
  }
}

// Makes the sizes fit: codes that were cut to `longest` take more of all bits than there are. A shorter code is made longer,
// which makes room for one of the longest next to it, until they fit.
void shorten(unsigned longest, unsigned* counts) {
  uint32_t used = 0;
  for (unsigned size = 1; size <= longest; ++size) used += counts[size] << (longest - size);
  for (; used > 1u << longest; --used) {
    unsigned size = longest - 1;
    while (!counts[size]) --size;
    --counts[size];
    --counts[longest];
    counts[size + 1] += 2;
  }
}

}  // namespace

void number_codes(Code* codes, size_t symbols) {
  unsigned counts[kLongest + 1] = {}, next[kLongest + 1];
  for (size_t symbol = 0; symbol < symbols; ++symbol) ++counts[codes[symbol].size];
  counts[0] = 0;
  unsigned code = 0;
  for (unsigned size = 1; size <= kLongest; ++size) {
    code = (code + counts[size - 1]) << 1;
    next[size] = code;
  }
  for (size_t symbol = 0; symbol < symbols; ++symbol) {
    unsigned bits = 0, number = next[codes[symbol].size]++;
    for (unsigned place = 0; place < codes[symbol].size; ++place, number >>= 1) bits = bits << 1 | (number & 1);
    codes[symbol].bits = static_cast<uint16_t>(bits);
  }
}

void make_codes(const uint32_t* counts, size_t symbols, unsigned longest, Code* codes) {
  std::pair<uint32_t, uint16_t> used[kMostSymbols];
  size_t leaves = 0;
  for (size_t symbol = 0; symbol < symbols; ++symbol) {
    codes[symbol] = {};
    if (counts[symbol]) used[leaves++] = {counts[symbol], static_cast<uint16_t>(symbol)};
  }
  for (uint16_t symbol = 0; leaves < 2; ++symbol) {
    if (!counts[symbol]) used[leaves++] = {1, symbol};
  }
  std::sort(used, used + leaves);
  uint32_t weights[kMostSymbols];
  for (size_t leaf = 0; leaf < leaves; ++leaf) weights[leaf] = used[leaf].first;
  unsigned sizes[kLongest + 1] = {};
  count_depths(weights, leaves, longest, sizes);
  shorten(longest, sizes);
  size_t leaf = 0;
  for (unsigned size = longest; size; --size) {
    for (unsigned code = 0; code < sizes[size]; ++code) codes[used[leaf++].second].size = static_cast<uint8_t>(size);
  }
  number_codes(codes, symbols);
}

}  // namespace native

#include "crop.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace native {
namespace {

constexpr int kTries = 10;
constexpr double kLeastShare = 0.08, kMostShare = 1.0, kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;

// numpy's SeedSequence: https://www.pcg-random.org/posts/developing-a-seed_seq-alternative.html
struct SeedSequence {
  std::array<uint32_t, 4> pool{};

  explicit SeedSequence(const std::vector<uint32_t>& entropy) {
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ value >> 16;
    };
    const auto add = [](uint32_t* to, uint32_t value) {
      *to = *to * 0xca01f9dd - value * 0x4973f715;
      *to ^= *to >> 16;
    };
    for (size_t place = 0; place < pool.size(); ++place) pool[place] = hash(place < entropy.size() ? entropy[place] : 0);
    for (size_t from = 0; from < pool.size(); ++from) {
      for (size_t to = 0; to < pool.size(); ++to) {
        if (from != to) add(&pool[to], hash(pool[from]));
      }
    }
    for (size_t from = pool.size(); from < entropy.size(); ++from) {
      for (uint32_t& to : pool) add(&to, hash(entropy[from]));
    }
  }

  std::array<uint64_t, 2> key() const {
    std::array<uint32_t, 4> words;
    uint32_t constant = 0x8b51f9dd;
    for (size_t place = 0; place < words.size(); ++place) {
      uint32_t value = pool[place] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[place] = value ^ value >> 16;
    }
    return {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32};
  }
};

// Philox4x64-10: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011.
class Philox {
 public:
  explicit Philox(std::array<uint64_t, 2> key) : key_(key) {}

  uint64_t next64() {
    if (place_ == block_.size()) make_block();
    return block_[place_++];
  }

  // The lower half of 64 bits, then the upper one.
  uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const uint64_t both = next64();
    has_half_ = true;
    half_ = static_cast<uint32_t>(both >> 32);
    return static_cast<uint32_t>(both);
  }

  double uniform(double least, double most) {
    const double share = static_cast<double>(next64() >> 11) * (1.0 / 9007199254740992.0);
    return least + (most - least) * share;
  }

  // 0 to `most`, by Lemire's method.
  uint32_t integer(uint32_t most) {
    if (most == 0) return 0;
    const uint32_t count = most + 1;
    uint64_t product = uint64_t{next32()} * count;
    if (static_cast<uint32_t>(product) < count) {
      const uint32_t threshold = (UINT32_MAX - most) % count;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next32()} * count;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  void make_block() {
    ++counter_;  // never exceeds 64 bits
    std::array<uint64_t, 4> block{counter_, 0, 0, 0};
    std::array<uint64_t, 2> key = key_;
    for (int round = 0; round < 10; ++round) {
      __extension__ typedef unsigned __int128 Wide;
      const Wide one = Wide{block[0]} * 0xD2E7470EE14C6C93u, two = Wide{block[2]} * 0xCA5A826395121157u;
      block = {static_cast<uint64_t>(two >> 64) ^ block[1] ^ key[0], static_cast<uint64_t>(two),
               static_cast<uint64_t>(one >> 64) ^ block[3] ^ key[1], static_cast<uint64_t>(one)};
      key = {key[0] + 0x9E3779B97F4A7C15u, key[1] + 0xBB67AE8584CAA73Bu};
    }
    block_ = block;
    place_ = 0;
  }

  std::array<uint64_t, 2> key_;
  std::array<uint64_t, 4> block_{};
  uint64_t counter_ = 0;
  size_t place_ = 4;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

Cut centered(int height, int width, double ratio) {
  const double across = std::min<double>(width, height * ratio), down = std::min<double>(height, width / ratio);
  const double left = (width - across) / 2, top = (height - down) / 2;
  return {left, top, left + across, top + down};
}

}  // namespace

void add_words(uint64_t value, std::vector<uint32_t>* words) {
  words->push_back(static_cast<uint32_t>(value));
  if (value >> 32) words->push_back(static_cast<uint32_t>(value >> 32));
}

Cut center_cut(int height, int width, int result_height, int result_width) {
  return centered(height, width, static_cast<double>(result_width) / result_height);
}

Cut random_cut(int height, int width, const std::vector<uint32_t>& entropy) {
  static const double least = std::log(kLeastRatio), most = std::log(kMostRatio);
  Philox random(SeedSequence(entropy).key());
  for (int tries = 0; tries < kTries; ++tries) {
    const double area = static_cast<double>(height) * width * random.uniform(kLeastShare, kMostShare);
    const double ratio = std::exp(random.uniform(least, most));
    const double across = std::nearbyint(std::sqrt(area * ratio)), down = std::nearbyint(std::sqrt(area / ratio));
    if (0 < across && across <= width && 0 < down && down <= height) {
      const double left = random.integer(static_cast<uint32_t>(width - across));
      const double top = random.integer(static_cast<uint32_t>(height - down));
      return {left, top, left + across, top + down};
    }
  }
  return centered(height, width, std::min(std::max(static_cast<double>(width) / height, kLeastRatio), kMostRatio));
}

}  // namespace native

// The part of a picture that is kept, as beam_pipelines/reader/images.py defines it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace native {

enum class Crop : int { kNone, kCenter, kRandom };

// Edges in pixels.
struct Cut {
  double left, top, right, bottom;
};

// The largest centered part of the result's proportions.
Cut center_cut(int height, int width, int result_height, int result_width);

// A random cut. `entropy`: 32-bit words of the integers from which the reference makes numpy's SeedSequence; numpy's Philox and
// Generator draw the same numbers from it.
Cut random_cut(int height, int width, const std::vector<uint32_t>& entropy);

// Adds the words of an integer, the lowest first, as SeedSequence takes it.
void add_words(uint64_t value, std::vector<uint32_t>* words);

}  // namespace native

// Decodes a batch of JPEGs to pixels of one size.
#pragma once

#include <cstdint>
#include <vector>

#include "column.h"
#include "crop.h"
#include "jpeg.h"

namespace native {

// What becomes of each picture.
struct Wish {
  int height, width, channels;  // of the result
  Crop crop;
  std::vector<uint32_t> seed;  // of random crops: words of an integer
  int64_t most_pixels;         // a larger JPEG is left to the caller
};

// Decodes texts in threads to [rows, height, width, channels] at `to`. `epochs` has a number for each row. Returns the rows of
// which it wrote nothing: other formats, rare JPEGs, damaged ones.
std::vector<int64_t> decode_jpegs(const Column& contents, const std::vector<int64_t>& epochs, const Wish& wish,
                                  const libjpeg::Functions& functions, int threads, uint8_t* to);

// Numbers that `cut_jpegs` writes of a picture: left, top, right and bottom of the part that becomes the result, in pixels; and the
// factor by which `decode_jpegs` decodes it smaller.
constexpr size_t kCutNumbers = 5;

// Reads headers only, for pictures that are decoded elsewhere. Leaves out JPEGs in RGB, too, which other decoders take for YCbCr.
std::vector<int64_t> cut_jpegs(const Column& contents, const std::vector<int64_t>& epochs, const Wish& wish,
                               const libjpeg::Functions& functions, int threads, float* to);

}  // namespace native

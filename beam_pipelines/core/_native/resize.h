// Resizes images with a triangle filter.
#pragma once

#include <cstdint>

namespace native {

// An image of interleaved bytes, row after row.
struct Pixels {
  const uint8_t* data;
  int height, width, channels;
};

// The part of an image that becomes the result, in pixels; edges may be within pixels.
struct Box {
  float left, top, right, bottom;
};

// Writes [height, width, channels] bytes. The filter is a triangle, widened by the scale where the image shrinks. The bytes are
// those of Image.resize of Pillow 12 with BILINEAR: columns before rows, weights of 22 bits, rounded to bytes after each.
// Throws InvalidData if the box is empty or not within the image.
void resize(const Pixels& image, const Box& box, int height, int width, uint8_t* to);

}  // namespace native

// Resizes images with a triangle filter.
#pragma once

#include <cstdint>

namespace native {

// Some rows and columns of an image.
struct Window {
  int top, left, bottom, right;

  int height() const { return bottom - top; }
  int width() const { return right - left; }
};

// An image, and the window of it whose interleaved bytes are there, row after row.
struct Pixels {
  const uint8_t* data;
  int height, width, channels;
  Window window;
};

// The part of an image that becomes the result, in pixels; edges may be within pixels.
struct Box {
  float left, top, right, bottom;
};

// Writes [height, width, channels] bytes. The filter is a triangle, widened by the scale where the image shrinks. The bytes are
// those of Image.resize of Pillow 12 with BILINEAR: columns before rows, weights of 22 bits, rounded to bytes after each.
// Throws InvalidData if the box is empty or not within the image, or reaches pixels outside of the window.
void resize(const Pixels& image, const Box& box, int height, int width, uint8_t* to);

// The pixels that `resize` reaches. Throws as it does.
Window window_of(int height, int width, const Box& box, int new_height, int new_width);

}  // namespace native

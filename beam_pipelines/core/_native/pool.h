// Threads that are kept between calls of kernels.
#pragma once

#include <cstdint>
#include <functional>

namespace native {

// Calls `each` with all numbers below `count`, in so many threads, and returns when all are done. With one thread it is the
// caller. Calls from several threads are served one after the other. Throws what a call of `each` throws.
void run_in_pool(int64_t count, int threads, const std::function<void(int64_t)>& each);

}  // namespace native

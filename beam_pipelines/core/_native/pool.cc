#include "pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace native {
namespace {

struct Job {
  const std::function<void(int64_t)>& each;
  int64_t count, step;
  int64_t next = 0, done = 0;
  std::exception_ptr error = nullptr;
};

class Pool {
 public:
  explicit Pool(pid_t process) : process_(process) {}

  pid_t process() const { return process_; }

  void run(Job* job, int threads) {
    std::unique_lock<std::mutex> lock(lock_);
    for (; threads_ < threads; ++threads_) std::thread([this] { work(); }).detach();
    jobs_.push_back(job);
    has_work_.notify_all();
    is_done_.wait(lock, [job] { return job->done == job->count; });
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
      has_work_.wait(lock, [this] { return !jobs_.empty(); });
      Job* job = jobs_.front();
      const int64_t first = job->next, end = std::min(job->count, first + job->step);
      job->next = end;
      if (end == job->count) jobs_.pop_front();
      lock.unlock();
      std::exception_ptr error;
      try {
        for (int64_t number = first; number < end; ++number) job->each(number);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) job->error = error;
      job->done += end - first;
      if (job->done == job->count) is_done_.notify_all();
    }
  }

  const pid_t process_;
  std::mutex lock_;
  std::condition_variable has_work_, is_done_;
  std::deque<Job*> jobs_;
  int threads_ = 0;
};

std::atomic<Pool*> kept{nullptr};

// The pool of this process. A fork has none of its parent's threads, and its locks may be held.
Pool& pool() {
  Pool* found = kept.load();
  if (found && found->process() == getpid()) return *found;
  Pool* made = new Pool(getpid());
  if (kept.compare_exchange_strong(found, made)) return *made;
  delete made;
  return *found;
}

}  // namespace

void run_in_pool(int64_t count, int threads, const std::function<void(int64_t)>& each) {
  if (threads < 2 || count < 2) {
    for (int64_t number = 0; number < count; ++number) each(number);
    return;
  }
  // Some steps a thread, so that none waits long for the last one.
  Job job{each, count, std::clamp<int64_t>(count / (int64_t{threads} * 8), 1, 16)};
  pool().run(&job, threads);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace native

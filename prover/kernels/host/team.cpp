#include "team.hpp"

#include <exception>
#include <new>
#include <system_error>

namespace czk {

void Tasks::work(int32_t worker) {
  while (status_.load(std::memory_order_relaxed) == CZK_OK) {
    const uint64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= count_) return;
    int32_t result = CZK_CANCELLED;
    if (!(cancel_ && *cancel_)) {
      try {
        result = body_(context_, task, worker);
      } catch (const std::bad_alloc&) {
        result = CZK_NO_MEMORY;
      } catch (const std::exception&) {
        result = CZK_INTERNAL;
      }
    }
    int32_t expected = CZK_OK;
    if (result != CZK_OK) status_.compare_exchange_strong(expected, result);
  }
}

int32_t Tasks::outcome() const {
  switch (status_.load()) {
    case CZK_OK: return CZK_OK;
    case CZK_CANCELLED: return fail(CZK_CANCELLED, "cancelled");
    case CZK_NO_MEMORY: return fail(CZK_NO_MEMORY, "out of memory");
    default: return status_.load();
  }
}

namespace {

int32_t bounded(int32_t threads) {
  static const uint64_t most = Team::kPerProcessor * std::max(1u, std::thread::hardware_concurrency());
  return int32_t(std::min<uint64_t>(most, uint64_t(std::max(1, threads))));
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Team::Team(int32_t threads, CzkCancel cancel) : threads_(bounded(threads)), cancel_(cancel) {}

Team::~Team() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    turn_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& t : pool_) t.join();
}

int32_t Team::run(uint64_t tasks, Tasks& queue) {
  if (tasks < 2 || threads_ < 2) {
    queue.work(0);
    return queue.outcome();
  }
  start();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_ = &queue;
    most_ = tasks;
    turn_.fetch_add(1);
  }
  wake_.notify_all();
  queue.work(0);
  // Whoever has not come by now finds no queue; the others finish their last task.
  std::unique_lock<std::mutex> lock(mutex_);
  queue_ = nullptr;
  done_.wait(lock, [&] { return busy_ == 0; });
  return queue.outcome();
}

void Team::start() {
  if (!pool_.empty() || refused_) return;
  pool_.reserve(size_t(threads_) - 1);
  for (int32_t i = 1; i < threads_; i++) {
    try {
      pool_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error&) {
      refused_ = true;
      break;
    }
  }
}

void Team::serve(int32_t worker) {
  for (uint64_t seen = 0;;) {
    // The next step is often some microseconds away: look for it before going to sleep.
    for (int spin = 0; spin < 1000 && turn_.load(std::memory_order_relaxed) == seen; spin++) pause();
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [&] { return turn_.load(std::memory_order_relaxed) != seen; });
    seen = turn_.load(std::memory_order_relaxed);
    if (ended_) return;
    if (!queue_ || uint64_t(worker) >= most_) continue;
    busy_++;
    Tasks* queue = queue_;
    lock.unlock();
    queue->work(worker);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace czk

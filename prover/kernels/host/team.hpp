// Threads that stay for several parallel steps of one call: starting a thread costs some 30 us, as much as a small step.
#pragma once
#include <condition_variable>
#include <mutex>

#include "variant.hpp"

CZK_BEGIN

class Team {
 public:
  // At most `threads` run at a time, the caller among them; they start with the first step that has several tasks.
  Team(int32_t threads, CzkCancel cancel) : threads_(threads), cancel_(cancel) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      turn_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& t : pool_) t.join();
  }

  int32_t threads() const { return threads_; }

  // As parallel_for; worker is below the number of tasks as well.
  template <class Fn>
  int32_t run(uint64_t tasks, Fn&& fn) {
    Tasks<std::remove_reference_t<Fn>> queue(tasks, cancel_, fn);
    if (tasks < 2 || threads_ < 2) {
      queue.work(0);
      return queue.outcome();
    }
    start();
    auto work = [](void* q, int32_t worker) { static_cast<decltype(queue)*>(q)->work(worker); };
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = work;
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
  // run over [0, n) cut into ranges of at most `chunk`: fn(begin, end, worker).
  template <class Fn>
  int32_t run_ranges(uint64_t n, uint64_t chunk, Fn&& fn) {
    return run(n / chunk + (n % chunk != 0), [&](uint64_t task, int32_t worker) {
      uint64_t begin = task * chunk;
      return fn(begin, std::min(n, begin + chunk), worker);
    });
  }

 private:
  void start() {
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

  void serve(int32_t worker) {
    for (uint64_t seen = 0;;) {
      // The next step is often some microseconds away: look for it before going to sleep.
      for (int spin = 0; spin < 1000 && turn_.load(std::memory_order_relaxed) == seen; spin++) pause();
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return turn_.load(std::memory_order_relaxed) != seen; });
      seen = turn_.load(std::memory_order_relaxed);
      if (ended_) return;
      if (!queue_ || uint64_t(worker) >= most_) continue;
      busy_++;
      auto* work = work_;
      void* queue = queue_;
      lock.unlock();
      work(queue, worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  const int32_t threads_;
  const CzkCancel cancel_;
  std::vector<std::thread> pool_;
  bool refused_ = false;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> turn_{0};
  // Guarded by the mutex.
  void (*work_)(void*, int32_t) = nullptr;
  void* queue_ = nullptr;
  uint64_t most_ = 0;  // tasks in the queue
  int busy_ = 0;
  bool ended_ = false;
};

CZK_END

// Threads for the parallel steps of a call. Compiled once for all variants: the bodies of the tasks come as functions.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "../abi.h"
#include "functions.hpp"

namespace czk {

// Sets the calling thread's error text (library.cpp) and returns the code.
int32_t fail(int32_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// A step's tasks [0, count), taken one after the other by whichever threads call work(). The first status that is not
// CZK_OK stops the rest, as does the flag, which is read before each task: keep tasks to milliseconds.
class Tasks {
 public:
  // Does one task and returns a status; worker names the thread, for scratch memory.
  using Body = int32_t (*)(void* context, uint64_t task, int32_t worker);

  Tasks(uint64_t count, CzkCancel cancel, Body body, void* context)
      : count_(count), cancel_(cancel), body_(body), context_(context) {}
  void work(int32_t worker);
  // After all threads have returned from work(); sets the error text.
  int32_t outcome() const;

 private:
  const uint64_t count_;
  const CzkCancel cancel_;
  const Body body_;
  void* const context_;
  std::atomic<uint64_t> next_{0};
  std::atomic<int32_t> status_{0};
};

// Threads that stay for several parallel steps of one call: starting a thread costs some 30 us, as much as a small step.
class Team {
 public:
  // Threads for each processor at most, whatever the caller asks for.
  static constexpr uint64_t kPerProcessor = 4;

  // At most `threads` run at a time, the caller among them; they start with the first step that has several tasks. Where
  // the system gives fewer, fewer run.
  Team(int32_t threads, CzkCancel cancel);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int32_t threads() const { return threads_; }

  // Calls fn(task, worker) for each task, worker in [0, threads()) and below the number of tasks. fn returns nothing or a
  // status.
  template <class Fn>
  int32_t run(uint64_t tasks, Fn&& fn) {
    auto body = [](void* context, uint64_t task, int32_t worker) -> int32_t {
      auto& call = *static_cast<std::remove_reference_t<Fn>*>(context);
      if constexpr (std::is_void_v<decltype(call(task, worker))>)
        return call(task, worker), 0;
      else
        return call(task, worker);
    };
    Tasks queue(tasks, cancel_, body, const_cast<void*>(static_cast<const void*>(&fn)));
    return run(tasks, queue);
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
  int32_t run(uint64_t tasks, Tasks& queue);
  void start();
  void serve(int32_t worker);

  const int32_t threads_;
  const CzkCancel cancel_;
  std::vector<std::thread> pool_;
  bool refused_ = false;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> turn_{0};
  // Guarded by the mutex.
  Tasks* queue_ = nullptr;
  uint64_t most_ = 0;  // tasks in the queue
  int busy_ = 0;
  bool ended_ = false;
};

// Scratch of each worker, made by the first task that it does.
template <class T>
class PerThread {
 public:
  explicit PerThread(uint64_t threads) : made_(threads) {}
  T& operator[](int32_t worker) {
    std::unique_ptr<T>& one = made_[size_t(worker)];
    if (!one) one = std::make_unique<T>();
    return *one;
  }

 private:
  std::vector<std::unique_ptr<T>> made_;
};

// One step of its own: Team::run with at most `threads` threads.
template <class Fn>
int32_t parallel_for(uint64_t tasks, int32_t threads, CzkCancel cancel, Fn&& fn) {
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  Team team(int32_t(std::min<uint64_t>(uint64_t(threads), std::max<uint64_t>(1, tasks))), cancel);
  return team.run(tasks, fn);
}
template <class Fn>
int32_t parallel_ranges(uint64_t n, uint64_t chunk, int32_t threads, CzkCancel cancel, Fn&& fn) {
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  Team team(int32_t(std::min<uint64_t>(uint64_t(threads), n / chunk + 1)), cancel);
  return team.run_ranges(n, chunk, fn);
}

}  // namespace czk

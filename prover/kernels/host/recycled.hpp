// Scratch memory that outlives the call: a page touched for the first time costs as much as several additions on the
// curve, and the next call wants the same again.
#pragma once
#include <mutex>

#include "variant.hpp"

CZK_BEGIN

// Blocks given back, by size; at most kKept bytes, the smallest go first.
class Recycler {
 public:
  static constexpr uint64_t kKept = uint64_t(24) << 20;

  static Recycler& instance() {
    static Recycler* const one = new Recycler;  // never destroyed: threads may outlive static destruction
    return *one;
  }

  // A block of `bytes` to twice that.
  Buffer<char> take(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    size_t best = kept_.size();
    for (size_t i = 0; i < kept_.size(); i++)
      if (kept_[i].size() >= bytes && kept_[i].size() <= 2 * bytes && (best == kept_.size() || kept_[i].size() < kept_[best].size()))
        best = i;
    if (best == kept_.size()) return Buffer<char>(bytes);
    Buffer<char> block = std::move(kept_[best]);
    kept_[best] = std::move(kept_.back());
    kept_.pop_back();
    total_ -= block.size();
    return block;
  }

  void give(Buffer<char>&& block) {
    if (block.size() > kKept) return;
    std::lock_guard<std::mutex> lock(mutex_);
    total_ += block.size();
    kept_.push_back(std::move(block));
    while (total_ > kKept || kept_.size() > kMost) {
      size_t least = 0;
      for (size_t i = 1; i < kept_.size(); i++)
        if (kept_[i].size() < kept_[least].size()) least = i;
      total_ -= kept_[least].size();
      kept_[least] = std::move(kept_.back());
      kept_.pop_back();
    }
  }

 private:
  static constexpr size_t kMost = 256;
  Recycler() { kept_.reserve(kMost + 1); }  // give() must not throw
  std::mutex mutex_;
  std::vector<Buffer<char>> kept_;
  uint64_t total_ = 0;
};

// Buffer whose memory comes from the recycler and returns there.
template <class T>
class Recycled {
 public:
  Recycled() = default;
  explicit Recycled(uint64_t n) : size_(n) {
    if (n > (uint64_t(1) << 62) / sizeof(T)) throw std::bad_alloc();
    if (n > 0) block_ = Recycler::instance().take(n * sizeof(T));
  }
  Recycled(Recycled&& o) noexcept : block_(std::move(o.block_)), size_(o.size_) { o.size_ = 0; }
  Recycled& operator=(Recycled&& o) noexcept {
    std::swap(block_, o.block_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~Recycled() {
    if (block_.size() > 0) Recycler::instance().give(std::move(block_));
  }

  T* data() { return reinterpret_cast<T*>(block_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(block_.data()); }
  uint64_t size() const { return size_; }
  T& operator[](uint64_t i) { return data()[i]; }
  const T& operator[](uint64_t i) const { return data()[i]; }

 private:
  Buffer<char> block_;
  uint64_t size_ = 0;
};

CZK_END

/* torch.h - the few names of PyTorch and SLEEF that vLLM's CPU attention uses, so that it compiles
 * without either. The build puts it in front of vLLM's files, and empty files in place of the
 * headers that these include. */
#ifndef ATTUNE_ADAPTERS_VLLM_CPU_TORCH_H
#define ATTUNE_ADAPTERS_VLLM_CPU_TORCH_H

#include <immintrin.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iomanip>
#include <limits>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace c10
{
struct Half {
	uint16_t x;
};
struct BFloat16 {
	uint16_t x;
	operator float() const /* of a sink; the adapter passes none */
	{
		const uint32_t bits = (uint32_t)x << 16;
		float f;
		memcpy(&f, &bits, sizeof f);
		return f;
	}
};
struct Float8_e4m3fn {
	uint8_t x;
};
struct Float8_e5m2 {
	uint8_t x;
};
} // namespace c10

#define TORCH_CHECK(condition, ...)                                         \
	do {                                                                \
		if (!(condition))                                           \
			throw std::runtime_error("vLLM wants " #condition); \
	} while (0)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b))

/* A tensor is the memory of vLLM's schedule, aligned as PyTorch's. */
namespace torch
{
enum Named { kInt8, kCPU };
struct TensorOptions {
	TensorOptions dtype(Named) const
	{
		return *this;
	}
	TensorOptions device(Named) const
	{
		return *this;
	}
};
struct Tensor {
	std::shared_ptr<void> memory;
	void *data_ptr() const
	{
		return memory.get();
	}
};
inline Tensor empty(std::initializer_list<int64_t> sizes, TensorOptions)
{
	const size_t bytes = ((size_t)*sizes.begin() + 63) / 64 * 64;
	void *memory = std::aligned_alloc(64, bytes);
	if (!memory)
		throw std::bad_alloc();
	return { std::shared_ptr<void>(memory, std::free) };
}
} // namespace torch

/* Of the capabilities vLLM asks the size of the L2 cache. */
namespace at::cpu
{
struct Value {
	int64_t value;
	int64_t toInt() const
	{
		return value;
	}
};
struct Capabilities {
	Value at(const char *) const
	{
		const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
		return { bytes > 0 ? bytes : 256 << 10 };
	}
};
inline Capabilities get_cpu_capabilities()
{
	return {};
}
} // namespace at::cpu

/* Declared for a function that attention does not call. */
extern "C" __m512 Sleef_tanhf16_u10(__m512);

#endif

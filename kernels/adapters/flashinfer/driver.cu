/* driver.cu - the functions of CUDA's driver that XQA's tensor maps call, found at run time: what
 * is linked against libcuda.so.1 cannot be loaded on a machine without a driver, not even to list
 * its kernels. */
#include <xqa/tensorMap.cpp>
#include <cuda_runtime.h>

static void *driver_function(const char *name)
{
	void *function = nullptr;
	cudaDriverEntryPointQueryResult found;
	if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found))
		return nullptr;
	return found == cudaDriverEntryPointSuccess ? function : nullptr;
}

extern "C" CUresult
cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
		       const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
		       const cuuint32_t *steps, CUtensorMapInterleave interleave,
		       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
		       CUtensorMapFloatOOBfill fill)
{
	static const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(
	    driver_function("cuTensorMapEncodeTiled"));
	return encode ? encode(map, type, rank, address, dims, strides, box, steps, interleave,
			       swizzle, promotion, fill)
		      : CUDA_ERROR_NOT_FOUND;
}

extern "C" CUresult cuGetErrorName(CUresult error, const char **name)
{
	static const auto get =
	    reinterpret_cast<decltype(&cuGetErrorName)>(driver_function("cuGetErrorName"));
	return get ? get(error, name) : CUDA_ERROR_NOT_FOUND;
}

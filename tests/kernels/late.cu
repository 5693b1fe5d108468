/* SPDX-License-Identifier: Apache-2.0 */
/* late.cu - the launch in front of a call that begins early (t_gpu_early.c): one block, which lets
 * the next launch begin at once, stays for so many cycles, and only then writes. Includes nothing,
 * so that any run-time compiler takes it. */
struct late_args { /* as in t_gpu_early.c */
	unsigned long long *const *to;
	const unsigned long long *from;
	long long words, cycles;
};

extern "C" __global__ void ENTRY(const late_args a)
{
	const long long begin = clock64();
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
	while (clock64() - begin < a.cycles)
		;
	for (long long i = threadIdx.x; i < a.words; i += blockDim.x)
		*a.to[i] = a.from[i];
}

/* vllm_cpu_kernels.cpp - the instantiations of vLLM's templates for one type: SCALAR is vLLM's name
 * of it, DTYPE attune's, LIST the function that lists them. */
#include "vllm_cpu.h"

using cpu_attention::ISA;

/* Of this file alone: the files of the other types have some of the same name. */
namespace
{
template <ISA isa, int64_t head_size> struct instance {
	using impl = cpu_attention::AttentionImpl<isa, SCALAR, head_size, SCALAR>;

	static torch::Tensor schedule(cpu_attention::AttentionScheduler::ScheduleInput input)
	{
		input.isa = isa;
		input.elem_size = sizeof(SCALAR);
		input.q_buffer_elem_size = sizeof(typename impl::q_buffer_t);
		input.logits_buffer_elem_size = sizeof(typename impl::logits_buffer_t);
		input.output_buffer_elem_size = sizeof(typename impl::partial_output_buffer_t);
		input.max_num_q_per_iter = impl::MaxQHeadNumPerIteration;
		input.kv_block_alignment = impl::BlockSizeAlignment;
		return cpu_attention::AttentionScheduler().schedule(input);
	}

	static void attend(const cpu_attention::AttentionInput *input)
	{
		cpu_attention::AttentionMainLoop<impl>()(input);
	}

	static void store(const vllm_cache *c, const vllm_rows *r)
	{
		SCALAR *const k = reinterpret_cast<SCALAR *>(c->memory);
		impl::reshape_and_cache(
		    static_cast<const SCALAR *>(r->k), static_cast<const SCALAR *>(r->v), k,
		    k + c->page_size * head_size, r->slots, r->num_tokens, r->k_token_stride,
		    r->v_token_stride, c->num_kv_heads, r->k_head_stride, r->v_head_stride, 0,
		    c->page_stride, c->head_stride, c->page_size, head_size);
	}

	static constexpr vllm_kernel row = { DTYPE,    head_size, impl::BlockSizeAlignment,
					     schedule, attend,    store };
};
} // namespace

vllm_kernels LIST()
{
	/* vLLM takes VEC16 for head sizes that are no multiple of 32. */
	static const vllm_kernel list[] = {
		instance<ISA::VEC, 64>::row,    instance<ISA::VEC, 96>::row,
		instance<ISA::VEC, 128>::row,   instance<ISA::VEC, 192>::row,
		instance<ISA::VEC, 256>::row,   instance<ISA::VEC16, 64>::row,
		instance<ISA::VEC16, 80>::row,  instance<ISA::VEC16, 96>::row,
		instance<ISA::VEC16, 128>::row, instance<ISA::VEC16, 192>::row,
		instance<ISA::VEC16, 256>::row,
	};
	return { list, sizeof list / sizeof *list };
}

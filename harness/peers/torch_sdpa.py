# SPDX-License-Identifier: Apache-2.0
"""torch's scaled_dot_product_attention, which does not know pages: each launch gathers keys and values.

A batch of decodes is one call, padded to the longest sequence. Padding needs a mask, which FlashAttention refuses.
Any other batch is one call for each sequence.

It raced on an H200 and on a CPU.
"""


class Peer:
    name = "torch_sdpa"
    about = "torch's SDPA, after a gather of the pages"
    packages = ("torch",)
    backends = ("cpu", "cuda")
    dtypes = ("f32", "f16", "bf16")
    needs = ("finite_slots",)  # masked values are multiplied by 0
    axes = {"BACKEND": (0, 1, 2)}  # torch's own choice, FlashAttention, cuDNN

    def prepare(self, shape, BACKEND):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kinds = [None, SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]
        if shape.device == "cpu" and BACKEND == 2:
            raise NotImplementedError("cuDNN is for GPUs")
        self.torch, self.shape, self.is_flash = torch, shape, BACKEND < 2
        self.within = (lambda: sdpa_kernel(kinds[BACKEND])) if BACKEND else torch.no_grad

    def plan(self, batch, t):
        """Groups of sequences that share a call: (rows of q, page indices, mask)."""
        from torch.nn.attention.bias import causal_lower_right

        torch, s, calls = self.torch, self.shape, []
        table, lens = t.block_table.torch(), batch.seq_lens
        if batch.max_query == 1 and min(batch.query_lens) == 1:
            used = torch.tensor([-(-n // s.page_size) for n in lens], device=s.device)
            at = torch.arange(table.shape[1], device=s.device)
            pages = torch.where(at < used[:, None], table, table[:, :1])
            if min(lens) == max(lens):
                return [(slice(0, len(lens)), len(lens), pages, lens[0], False)]
            slots = torch.arange(pages.shape[1] * s.page_size, device=s.device)
            mask = slots < torch.tensor(lens, device=s.device)[:, None]
            return [(slice(0, len(lens)), len(lens), pages, None, mask[:, None, None])]
        for i, (m, n) in enumerate(zip(batch.query_lens, lens)):
            if m:
                rows = slice(batch.query_start[i], batch.query_start[i] + m)
                mask = None
                if s.causal and m > 1 and m < n:  # FlashAttention takes no mask but this one
                    mask = causal_lower_right(m, n) if self.is_flash else torch.ones(
                        m, n, dtype=torch.bool, device=s.device).tril(n - m)  # fmt: skip
                pages = table[i : i + 1, : -(-n // s.page_size)].clone()
                calls.append((rows, 1, pages, n, mask if mask is not None else s.causal and m > 1))
        return calls

    def launch(self, calls, t):
        s, attention = self.shape, self.torch.nn.functional.scaled_dot_product_attention
        q, out, caches = t.q.torch(), t.out.torch(), (t.k_cache.torch(), t.v_cache.torch())
        for rows, seqs, pages, keys, mask in calls:
            k, v = (c[pages].flatten(1, 2)[:, :keys].transpose(1, 2) for c in caches)
            of = q[rows].unflatten(0, (seqs, -1)).transpose(1, 2)
            how = {"is_causal": mask} if isinstance(mask, (bool, int)) else {"attn_mask": mask}
            with self.within():
                o = attention(of, k, v, scale=s.scale, enable_gqa=s.group > 1, **how)
            out[rows] = o.transpose(1, 2).flatten(0, 1)

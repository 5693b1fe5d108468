# SPDX-License-Identifier: Apache-2.0
"""Attention by numpy, one sequence after the other."""
import numpy


def floats(array):
    """bf16 comes as the upper halves of f32."""
    v = array.numpy()
    return (v.astype(numpy.uint32) << 16).view(numpy.float32) if array.dtype == "bf16" else v


class Peer:
    name = "numpy_attention"
    about = "numpy, a sequence at a time"
    packages = ("numpy",)
    backends = ("cpu",)
    dtypes = ("f32", "bf16")
    axes = {"COPY": (0, 1)}

    def prepare(self, shape, COPY):
        self.shape, self.copy = shape, COPY

    def plan(self, batch, tensors):
        return batch

    def launch(self, batch, t):
        s = self.shape
        q, k_cache, v_cache = floats(t.q), t.k_cache, t.v_cache
        out, table = t.out.numpy(), t.block_table.numpy()
        for i, (m, n) in enumerate(zip(batch.query_lens, batch.seq_lens)):
            at = batch.query_start[i]
            pages = table[i, : -(-n // s.page_size)]
            k, v = (self.keys(c, pages, n) for c in (k_cache, v_cache))
            rows = q[at : at + m].reshape(m, s.num_kv_heads, s.group, s.head_size)
            score = numpy.einsum("mhgd,nhd->hgmn", rows, k) * s.scale
            if s.causal:
                seen = numpy.arange(n)[None, :] <= numpy.arange(n - m, n)[:, None]
                score = numpy.where(seen, score, -numpy.inf)
            score = numpy.exp(score - numpy.maximum(score.max(-1, keepdims=True), -1e30))
            total = numpy.maximum(score.sum(-1, keepdims=True), 1e-30)
            o = numpy.einsum("hgmn,nhd->mhgd", score / total, v).reshape(m, -1, s.head_size)
            self.write(out[at : at + m], o.astype(numpy.float32))

    def keys(self, cache, pages, n):
        """[n][KV heads][head size], gathered."""
        raw = cache.numpy()[pages].reshape(-1, self.shape.num_kv_heads, self.shape.head_size)[:n]
        raw = raw.copy() if self.copy else raw
        return (raw.astype(numpy.uint32) << 16).view(numpy.float32) if cache.dtype == "bf16" else raw

    def write(self, to, o):
        if self.shape.dtype == "f32":
            to[:] = o
        else:  # the nearest bf16
            bits = o.view(numpy.uint32)
            to[:] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16

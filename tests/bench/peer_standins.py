"""FlashInfer and vLLM as far as the peers call them: the same signatures and checks, computed by PyTorch.

Signatures and checks are those of FlashInfer 0.6.18 (``flashinfer/rope.py``, ``cascade.py``, ``decode.py`` and
what they call in ``csrc``), and of vLLM's ``_custom_ops.py`` (commit 0002bde5), ``triton_decode_attention.py``
(0155494b) and ``flash_attn_interface.py`` (01420e05). Defaults that the peers leave alone are left out.
"""

from __future__ import annotations

import math
from types import ModuleType, SimpleNamespace
from typing import Any


def flashinfer(torch: Any, log: list[str]) -> dict[str, Any]:
    """Return the modules of FlashInfer by name."""

    def apply_rope_with_cos_sin_cache_inplace(
        positions: Any, query: Any, key: Any, head_size: int, cos_sin_cache: Any, is_neox: bool = True
    ) -> None:
        if cos_sin_cache.dtype != torch.float32:
            raise ValueError("cos_sin_cache should be float32")
        assert positions.dtype in (torch.int32, torch.int64)
        assert not is_neox
        rotary_dim = cos_sin_cache.shape[1]
        for tensor in (query, key):
            heads = tensor.view(tensor.shape[0], -1, head_size)
            assert heads.dtype in (torch.float16, torch.bfloat16)
            assert heads.stride(-1) == 1
            assert rotary_dim <= heads.shape[-1]
            _rotate(torch, positions, heads, cos_sin_cache)
        log.append("rope")

    def merge_states(v: Any, s: Any) -> tuple[Any, Any]:
        assert v.dtype in (torch.float16, torch.bfloat16)
        assert v.is_contiguous()
        assert s.is_contiguous()
        assert s.dtype == torch.float32
        assert v.dim() == 4
        assert s.shape == v.shape[:3]
        if v.shape[-1] not in (64, 128, 256, 512):
            raise RuntimeError(f"Unsupported head_dim: {v.shape[-1]}")
        weights = (s * math.log(2.0)).softmax(1)
        log.append("merge")
        return (weights[..., None] * v).sum(1).to(v.dtype), s.exp2().sum(1).log2()

    module = ModuleType("flashinfer")
    vars(module).update(
        apply_rope_with_cos_sin_cache_inplace=apply_rope_with_cos_sin_cache_inplace,
        merge_states=merge_states,
        BatchDecodeWithPagedKVCacheWrapper=_wrapper(torch, log),
    )
    return {"flashinfer": module}


def _wrapper(torch: Any, log: list[str]) -> type:
    class BatchDecodeWithPagedKVCacheWrapper:
        def __init__(
            self,
            float_workspace_buffer: Any,
            kv_layout: str = "NHD",
            use_cuda_graph: bool = False,
            use_tensor_cores: bool = False,
            paged_kv_indptr_buffer: Any = None,
            paged_kv_indices_buffer: Any = None,
            paged_kv_last_page_len_buffer: Any = None,
        ) -> None:
            assert float_workspace_buffer.dtype == torch.uint8
            assert not float_workspace_buffer.any()
            assert use_cuda_graph
            assert len(paged_kv_indptr_buffer) == len(paged_kv_last_page_len_buffer) + 1
            self.layout = kv_layout
            self.tensor_cores = use_tensor_cores
            self.buffers = (paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer)

        def plan(
            self,
            indptr: Any,
            indices: Any,
            last_page_len: Any,
            num_qo_heads: int,
            num_kv_heads: int,
            head_dim: int,
            page_size: int,
            *,
            pos_encoding_mode: str = "NONE",
            q_data_type: Any = "float16",
            kv_data_type: Any = None,
            sm_scale: float | None = None,
        ) -> None:
            for buffer, given in zip(self.buffers, (indptr, indices, last_page_len), strict=True):
                assert buffer.data_ptr() != given.data_ptr()
                assert given.dtype == torch.int32
                buffer.copy_(given)
            assert ((last_page_len >= 1) & (last_page_len <= page_size)).all()
            assert len(indices) == indptr[-1]
            self.heads = (num_qo_heads, num_kv_heads, head_dim)
            self.page_size = page_size
            self.types = (q_data_type, kv_data_type)
            self.scale = head_dim**-0.5 if sm_scale is None else sm_scale
            log.append(f"plan, tensor cores: {self.tensor_cores}")

        def run(self, q: Any, paged_kv_cache: Any) -> Any:
            keys, values = paged_kv_cache
            assert self.layout == "NHD"
            assert keys.shape[1:] == (self.page_size, *self.heads[1:])
            assert q.shape == (len(self.buffers[2]), self.heads[0], self.heads[2])
            assert (q.dtype, keys.dtype) == self.types
            indptr, indices, last = self.buffers
            rows = []
            for row in range(len(last)):
                pages = indices[indptr[row] : indptr[row + 1]].long()
                used = (len(pages) - 1) * self.page_size + int(last[row])
                rows.append(_attend(q[row], keys[pages], values[pages], used, self.scale))
            log.append("decode")
            return torch.stack(rows)

    return BatchDecodeWithPagedKVCacheWrapper


def vllm(torch: Any, log: list[str]) -> dict[str, Any]:
    """Return the modules of vLLM by name."""

    def rotary_embedding(
        positions: Any,
        query: Any,
        key: Any,
        head_size: int,
        cos_sin_cache: Any,
        is_neox: bool,
        rope_dim_offset: int = 0,
        inverse: bool = False,
    ) -> None:
        assert positions.dtype == torch.int64
        assert query.shape[0] == positions.shape[0]
        assert key is None
        assert query.numel() // len(positions) % head_size == 0
        assert not is_neox
        _rotate(torch, positions, query, cos_sin_cache)
        log.append("rope")

    def _decode_softmax_reducev_fwd(
        logits: Any, q: Any, o: Any, lse: Any, v_buffer: Any, b_seq_len: Any, num_kv_splits: int
    ) -> None:
        batch, heads = q.shape[:2]
        assert logits.shape == (batch, heads, num_kv_splits, v_buffer.shape[-1] + 1)
        assert logits.dtype == torch.float32
        assert o.shape == q.shape
        assert lse.shape == (batch, heads)
        split = -(-b_seq_len // num_kv_splits)
        used = torch.arange(num_kv_splits)[None] * split[:, None] < b_seq_len[:, None]
        weights = logits[..., -1].masked_fill(~used[:, None], -math.inf)
        lse.copy_(weights.logsumexp(-1))
        o.copy_((weights.softmax(-1)[..., None] * logits[..., :-1]).sum(-2))
        log.append("reduce")

    def is_fa_version_supported(fa_version: int) -> bool:
        return fa_version == 2

    def flash_attn_varlen_func(
        q: Any,
        k: Any,
        v: Any,
        max_seqlen_q: int,
        cu_seqlens_q: Any,
        max_seqlen_k: int,
        cu_seqlens_k: Any = None,
        seqused_k: Any = None,
        softmax_scale: float | None = None,
        causal: bool = False,
        block_table: Any = None,
        fa_version: int = 2,
    ) -> Any:
        assert q.dtype in (torch.float16, torch.bfloat16)
        assert cu_seqlens_q.tolist() == list(range(len(q) + 1))
        assert max_seqlen_q == 1
        assert seqused_k.max() == max_seqlen_k
        assert k.shape[1] % 16 == 0
        assert block_table.dtype == seqused_k.dtype == cu_seqlens_q.dtype == torch.int32
        if q.shape[-1] > 256:
            raise RuntimeError("FlashAttention forward only supports head dimension at most 256")
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        log.append(f"decode, FlashAttention {fa_version}")
        return torch.stack(
            [
                _attend(q[row], k[pages.long()], v[pages.long()], int(seqused_k[row]), scale)
                for row, pages in enumerate(block_table)
            ]
        )

    found = {
        "vllm._custom_ops": SimpleNamespace(rotary_embedding=rotary_embedding),
        "vllm.v1.attention.ops.triton_decode_attention": SimpleNamespace(
            _decode_softmax_reducev_fwd=_decode_softmax_reducev_fwd
        ),
        "vllm.vllm_flash_attn.flash_attn_interface": SimpleNamespace(
            is_fa_version_supported=is_fa_version_supported, flash_attn_varlen_func=flash_attn_varlen_func
        ),
    }
    return {"vllm": ModuleType("vllm"), **found}


def _rotate(torch: Any, positions: Any, heads: Any, table: Any) -> None:
    cosine, sine = table[positions.long()][:, None].chunk(2, -1)
    even, odd = heads[..., 0::2].float(), heads[..., 1::2].float()
    turned = torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1)
    heads.copy_(turned.flatten(-2))


def _attend(query: Any, keys: Any, values: Any, used: int, scale: float) -> Any:
    """Attend with the heads of a row to its pages [pages, page, kv heads, head_dim]."""
    keys, values = (part.flatten(0, 1)[:used].transpose(0, 1).float() for part in (keys, values))
    grouped = query.float().unflatten(0, (len(keys), -1))
    return ((grouped @ keys.mT * scale).softmax(-1) @ values).flatten(0, 1).to(query.dtype)

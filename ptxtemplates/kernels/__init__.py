"""The built-in kernels, one file a family. Importing this package registers them."""

from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.kernels.rope import BatchedRope, BatchedRopeBackward

__all__ = ["BatchedRope", "BatchedRopeBackward", "FlashDecodingChunk", "FlashDecodingReduce"]

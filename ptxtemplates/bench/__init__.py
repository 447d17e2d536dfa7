"""How long kernels take on a GPU: against a copy, an empty kernel and other libraries, in one run."""

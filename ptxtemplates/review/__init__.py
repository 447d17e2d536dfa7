"""Two sets of kernels side by side: what changed in text, contract, cost and meaning."""

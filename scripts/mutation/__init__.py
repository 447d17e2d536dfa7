"""Does `ptxtemplates verify` notice a wrong instruction? Mutants of rendered kernels, caught or sorted."""

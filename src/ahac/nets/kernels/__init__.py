"""Fast kernels for the networks of the first-order algorithms; `README.md` describes them."""

"""Native kernels for the networks of the first-order algorithms; see `README.md` in this folder."""

"""PyTorch as a plugin of harness."""

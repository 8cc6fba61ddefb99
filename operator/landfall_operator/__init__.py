"""Landfall's control plane: the Kubernetes operator, which is not built yet."""

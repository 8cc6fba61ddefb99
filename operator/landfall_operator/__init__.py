"""Landfall's control plane: the Kubernetes operator."""

"""``make demo-cluster``: two groups land on a real Kubernetes cluster.

On the way a driver pod is deleted, a group is scaled, and a group is upgraded.
"""

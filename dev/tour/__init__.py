"""``make demo-cluster``: two groups land on a real Kubernetes cluster.

On the way a driver pod is deleted, a group is scaled, a group is upgraded, and a catalog to which a
group publishes is stopped.
"""

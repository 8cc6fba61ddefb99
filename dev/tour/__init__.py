"""``make demo-cluster``: two groups on a real Kubernetes cluster, through a killed driver, a change of scale and an upgrade."""
